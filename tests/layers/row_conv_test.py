import numpy as np
import pytest

from ds2_tf.layers.row_conv import RowConv


def test_looks_ahead_and_never_back():
    generator = np.random.default_rng(0)
    lengths = np.array([9, 2, 0], np.int32)
    x = generator.normal(size=(3, 9, 4)).astype(np.float32)
    layer = RowConv(3)
    layer.build(x.shape)
    kernel = generator.normal(size=(4, 4)).astype(np.float32)
    layer.kernel.assign(kernel)
    expected = np.zeros_like(x)
    for b, length in enumerate(lengths):
        x[b, length:] = np.nan
        for t in range(length):
            for j in range(min(4, length - t)):
                expected[b, t] += kernel[j] * x[b, t + j]
    np.testing.assert_allclose(layer(x, lengths), expected, atol=1e-6)


def test_the_output_at_a_frame_depends_on_exactly_the_frames_ahead():
    x = np.zeros((1, 8, 1), np.float32)
    x[0, 5] = 1
    y = RowConv(2)(x, np.array([8]))
    assert np.flatnonzero(y.numpy()).tolist() == [3, 4, 5]


def test_no_lookahead_is_no_row_convolution():
    with pytest.raises(ValueError, match="lookahead must be >= 1. Received: 0"):
        RowConv(0)
