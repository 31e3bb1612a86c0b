import keras
import numpy as np
import pytest

from ds2_tf.layers.block import Block
from ds2_tf.layers.conv import SequenceConv2D
from ds2_tf.layers.dense import SequenceDense
from ds2_tf.layers.row_conv import RowConv

LENGTHS = np.array([7, 0, 2, 5], np.int32)


def make_input(shape=(4, 7, 3)):
    x = np.random.default_rng(0).normal(0, 4, shape).astype(np.float32)
    for row, length in zip(x, LENGTHS, strict=True):
        row[length:] = np.nan
    return x


def valid(x):
    return np.concatenate([row[:n] for row, n in zip(np.asarray(x), LENGTHS, strict=True)])


def make_block(batch_norm=True, **options):
    block = Block(SequenceDense(4, not batch_norm, name="linear"), batch_norm, **options)
    block.build((None, None, 3))
    generator = np.random.default_rng(1)
    for weight in block.trainable_weights:
        weight.assign(generator.normal(0.5, 3.0, weight.shape))
    return block


def clipped(y):
    """Both ends of the clipped ReLU must be reached, else the test says little."""
    assert (y < 0).any()
    assert (y > 20).any()
    assert ((y > 0) & (y < 20)).any()
    return np.minimum(np.maximum(y, 0), 20)


def test_training_normalises_the_products_by_the_batch():
    x, block = make_input(), make_block()
    block.batch_norm.gamma.assign([9.0, -20.0, 12.0, 30.0])
    kernel, gamma, beta = (
        np.asarray(v.value, np.float64)
        for v in (block.layer.kernel, block.batch_norm.gamma, block.batch_norm.beta)
    )
    products = valid(x) @ kernel
    mean, variance = products.mean(0), products.var(0)
    expected = clipped(gamma * (products - mean) / np.sqrt(variance + 1e-3) + beta)
    y, lengths = block(x, LENGTHS, training=True)
    np.testing.assert_allclose(valid(y), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(lengths, LENGTHS)
    np.testing.assert_allclose(block.batch_norm.moving_mean, 0.01 * mean, rtol=1e-4)
    for row, length in zip(y.numpy(), LENGTHS, strict=True):
        assert not row[length:].any()


def test_inference_normalises_by_the_running_averages():
    x, block = make_input(), make_block()
    block.batch_norm.moving_mean.assign([1, 2, 3, 4])
    block.batch_norm.moving_variance.assign([4, 9, 16, 25])
    kernel, gamma, beta = (
        np.asarray(v.value, np.float64)
        for v in (block.layer.kernel, block.batch_norm.gamma, block.batch_norm.beta)
    )
    scale = gamma / np.sqrt(np.array([4, 9, 16, 25]) + 1e-3)
    expected = clipped(scale * (valid(x) @ kernel - [1, 2, 3, 4]) + beta)
    for options in ({}, {"training": False}):
        y, _ = block(x, LENGTHS, **options)
        np.testing.assert_allclose(valid(y), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("training", [False, True])
def test_without_batch_normalisation_the_layer_is_clipped(training):
    x, block = make_input(), make_block(batch_norm=False)
    kernel, bias = (np.asarray(v.value) for v in (block.layer.kernel, block.layer.bias))
    y, _ = block(x, LENGTHS, training=training)
    np.testing.assert_allclose(valid(y), clipped(valid(x) @ kernel + bias), atol=1e-4)
    assert [weight.path.split("/")[-1] for weight in block.weights] == ["kernel", "bias"]


@pytest.mark.parametrize(
    ("layer", "shape", "num_channels"),
    [
        (lambda: SequenceConv2D(2, (3, 3), (2, 2)), (None, None, 5, 3), 2),
        (lambda: RowConv(2), (None, None, 6), 6),
        (lambda: SequenceDense(4), (None, None, 6), 4),
    ],
)
def test_there_is_one_statistic_a_channel(layer, shape, num_channels):
    block = Block(layer(), name="block")
    block.build(shape)
    assert {tuple(weight.shape) for weight in block.batch_norm.weights} == {(num_channels,)}


def test_the_names_of_the_weights():
    """Checkpoints and transfer rely on them."""
    x, lengths = keras.Input((None, 3)), keras.Input((), dtype="int32")
    block = Block(SequenceDense(4, name="linear"), name="dense_0")
    network = keras.Model([x, lengths], block(x, lengths))
    assert [weight.path for weight in network.weights] == [
        "dense_0/linear/kernel",
        "dense_0/bn/gamma",
        "dense_0/bn/beta",
        "dense_0/bn/moving_mean",
        "dense_0/bn/moving_variance",
    ]


def test_the_momentum_reaches_the_running_averages():
    x, block = make_input(), make_block(batch_norm_momentum=0.5)
    block(x, LENGTHS, training=True)
    products = valid(x) @ np.asarray(block.layer.kernel.value)
    np.testing.assert_allclose(block.batch_norm.moving_mean, 0.5 * products.mean(0), rtol=1e-4)
