import numpy as np
import pytest
import tensorflow as tf

from ds2_tf.layers.conv import SequenceConv2D


def reference(x, kernel, stride):
    """Convolution of one utterance [T, F, C] in float64, written as loops."""
    kt, kf, _, channels = kernel.shape
    padded = np.pad(x.astype(np.float64), [((kt - 1) // 2,) * 2, ((kf - 1) // 2,) * 2, (0, 0)])
    num_t, num_f = (x.shape[0] - 1) // stride[0] + 1, (x.shape[1] - 1) // stride[1] + 1
    y = np.zeros((num_t, num_f, channels))
    for t in range(num_t):
        for f in range(num_f):
            patch = padded[t * stride[0] :, f * stride[1] :][:kt, :kf]
            y[t, f] = np.einsum("tfc,tfco->o", patch, kernel)
    return y


@pytest.mark.parametrize(
    ("kernel", "stride"), [((3, 5), (1, 1)), ((5, 3), (2, 2)), ((3, 1), (3, 1)), ((7, 5), (3, 2))]
)
def test_each_utterance_equals_its_own_convolution(kernel, stride):
    generator = np.random.default_rng(0)
    lengths = np.array([11, 1, 0, 6], np.int32)
    x = generator.normal(size=(4, 13, 9, 2)).astype(np.float32)
    layer = SequenceConv2D(3, kernel, stride)
    layer.build(x.shape)
    for row, length in zip(x, lengths, strict=True):
        row[length:] = np.nan
    y, new_lengths = layer(x, lengths), layer.output_lengths(lengths)
    weights = np.asarray(layer.kernel.value)
    for i, length in enumerate(lengths):
        assert new_lengths[i] == (0 if length == 0 else (length - 1) // stride[0] + 1)
        if length:
            expected = reference(x[i, :length], weights, stride)
            np.testing.assert_allclose(y[i, : new_lengths[i]], expected, atol=1e-5)
        assert not y.numpy()[i, new_lengths[i] :].any()


def test_padding_reaches_no_gradient():
    x = np.random.default_rng(0).normal(size=(2, 8, 6, 1)).astype(np.float32)
    lengths = np.array([8, 3], np.int32)
    gradients = []
    for padding in (0.0, np.nan):
        x[1, 3:] = padding
        layer = SequenceConv2D(2, (3, 3), (2, 1))
        layer.build(x.shape)
        layer.kernel.assign(np.linspace(-1, 1, 18).reshape(3, 3, 1, 2))
        with tf.GradientTape() as tape:
            y = layer(x, lengths)
            loss = tf.reduce_sum(tf.square(y))
        gradients.append(tape.gradient(loss, layer.kernel.value).numpy())
    np.testing.assert_array_equal(*gradients)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kernel": (4, 3)}, r"kernel sizes must be odd and >= 1. Received: \(4, 3\)"),
        ({"kernel": (3, 3), "stride": (0, 1)}, r"strides must be >= 1. Received: \(0, 1\)"),
    ],
)
def test_impossible_shapes_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        SequenceConv2D(2, **arguments)
