"""Runs the operations' tests with the native library and without it."""

import pytest

from ds2_tf.native import ops as native


@pytest.fixture(params=["native", "portable"])
def way(request):
    """The native operations, or TensorFlow's own."""
    if request.param == "native":
        request.getfixturevalue("native_operations")
        yield request.param
    else:
        with native.portable():
            yield request.param
