"""The native algorithms, compiled without TensorFlow once and kept between runs."""

import shutil

import pytest

from ds2_tf.native import build as native_build
from tests.native import compiled, ctc_library


@pytest.fixture(scope="session")
def native_folder():
    """A folder of built files that outlives the run."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    folder = native_build.cache_folder() / "tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def ctc(native_folder):
    sources = [*ctc_library.SOURCES, compiled.TESTS / "ctc_c_api.cc"]
    return ctc_library.CtcLibrary(compiled.build(native_folder, "libctc.so", sources))
