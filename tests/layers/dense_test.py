import numpy as np
import pytest

from ds2_tf.layers.dense import SequenceDense


@pytest.mark.parametrize("use_bias", [False, True])
def test_each_frame_is_multiplied_with_the_weights(use_bias):
    generator = np.random.default_rng(0)
    lengths = np.array([6, 1, 0, 4], np.int32)
    x = generator.normal(size=(4, 6, 5)).astype(np.float32)
    layer = SequenceDense(3, use_bias)
    layer.build(x.shape)
    kernel, bias = generator.normal(size=(5, 3)), np.zeros(3)
    layer.kernel.assign(kernel)
    if use_bias:
        assert not np.asarray(layer.bias.value).any()
        bias = generator.normal(size=3)
        layer.bias.assign(bias)
    expected = np.zeros((4, 6, 3))
    for row, frames, length in zip(expected, x, lengths, strict=True):
        for t in range(length):
            row[t] = [frames[t] @ kernel[:, unit] + bias[unit] for unit in range(3)]
        frames[length:] = np.nan
    np.testing.assert_allclose(layer(x, lengths), expected, atol=1e-5)
    assert len(layer.weights) == 1 + use_bias


def test_no_units_are_an_error():
    with pytest.raises(ValueError, match="^units must be >= 1. Received: 0$"):
        SequenceDense(0)
