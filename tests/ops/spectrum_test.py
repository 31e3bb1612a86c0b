import numpy as np
import pytest
import tensorflow as tf

from ds2_tf.native import ops as native
from ds2_tf.ops.spectrum import power_spectrum


@pytest.mark.parametrize("lite", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 64, 160, 220, 320, 441, 882])
def test_equals_numpy(size, lite):
    frames = np.random.default_rng(size).normal(size=(2, 3, size)).astype(np.float32)
    expected = np.abs(np.fft.rfft(frames.astype(np.float64))) ** 2
    with native.portable(lite=lite):
        found = power_spectrum(tf.constant(frames))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * expected.max())
