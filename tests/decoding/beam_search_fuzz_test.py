"""Runs beam_search_fuzz.py, in the slow suite under the address and undefined sanitizers."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.decoding import beam_search_fuzz
from tests.native.compiled import ROOT


def test_random_matrices():
    assert beam_search_fuzz.main(0, 150) == 0


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_sanitizers_find_nothing():
    libraries = [
        subprocess.check_output(["g++", f"-print-file-name=lib{name}.so"], text=True).strip()
        for name in ("asan", "ubsan")
    ]
    # Python itself frees little at its end.
    environment = {
        **os.environ,
        "DS2_TF_SANITIZED": "1",
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
    }
    result = subprocess.run(
        [sys.executable, "-m", "tests.decoding.beam_search_fuzz", "1000", "10000"],
        env=environment, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, (result.stdout + result.stderr)[-5000:]
    assert "10000 seeds, 0 wrong" in result.stdout
