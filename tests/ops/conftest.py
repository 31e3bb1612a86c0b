"""Runs the operations' tests with the native library and without it."""

import contextlib

import pytest

from ds2_tf.native import build
from ds2_tf.native import ops as native


@pytest.fixture(params=["native", "portable"])
def way(request):
    """The native operations, which must load where there is a compiler, or TensorFlow's."""
    if request.param == "portable":
        with native.portable():
            yield request.param
        return
    with contextlib.suppress(build.BuildError):
        build.compiler()
        assert native.load() is not None, "there is a compiler, but the native library didn't load"
    if native.load() is None:
        pytest.skip("no C++ compiler")
    yield request.param
