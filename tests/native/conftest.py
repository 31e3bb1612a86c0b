"""The native CTC library, built once and kept between runs."""

import shutil

import pytest

from ds2_tf.native import build
from tests.native import ctc_library


@pytest.fixture(scope="session")
def native_folder():
    """A folder of built files that outlives the run."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    folder = build.cache_folder() / "tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def ctc(native_folder):
    source = ctc_library.ROOT / "tests" / "native" / "ctc_c_api.cc"
    path = ctc_library.build(native_folder, "libctc.so", ["-shared", "-fPIC", source])
    return ctc_library.CtcLibrary(path)
