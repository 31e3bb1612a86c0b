"""Runs ctc_test.cc: the CTC library under sanitizers, and its CUDA form as far as there is CUDA."""

import shutil
import subprocess

import pytest

from tests.native import ctc_library
from tests.native.compiled import NATIVE, ROOT, SANITIZERS, TESTS, build


@pytest.mark.slow
def test_sanitizers_find_nothing(native_folder):
    sources = [*ctc_library.SOURCES, TESTS / "ctc_test.cc", TESTS / "ctc_no_device.cc"]
    program = build(native_folder, "ctc_test", sources, SANITIZERS)
    result = subprocess.run([program, "1000"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert ", 0 failed" in result.stdout


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
def test_nvcc_builds_the_program(tmp_path):
    """Runs it too where there is a GPU."""
    sources = [
        *ctc_library.SOURCES,
        NATIVE / "ctc_cuda.cu",
        TESTS / "ctc_device.cu",
        TESTS / "ctc_test.cc",
    ]
    program = tmp_path / "ctc_test"
    command = ["nvcc", "-std=c++17", "-O3", "-arch=sm_80", f"-I{ROOT}"]
    subprocess.run([*command, *sources, "-o", program], check=True)
    result = subprocess.run([program, "300"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
