"""Every layer gives the same with the native operations and with TensorFlow's own."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from ds2_tf.layers.block import Block
from ds2_tf.layers.conv import SequenceConv2D
from ds2_tf.layers.dense import SequenceDense
from ds2_tf.layers.recomputation import recomputed_activations
from ds2_tf.layers.recurrent import Recurrent
from ds2_tf.layers.row_conv import RowConv
from ds2_tf.native import ops as native

pytestmark = pytest.mark.usefixtures("native_operations")

LENGTHS = np.array([17, 0, 1, 9, 17], np.int32)
LAYERS = {
    "conv": lambda: SequenceConv2D(4, (5, 7), (2, 2)),
    "conv block": lambda: Block(SequenceConv2D(3, (3, 5), (1, 2))),
    "first conv block": lambda: Block(SequenceConv2D(3, (11, 41), (2, 2), input_gradient=False)),
    "dense": lambda: SequenceDense(6),
    "row conv": lambda: RowConv(3),
} | {
    f"{cell} {'both' if bidirectional else 'forward'} {'own' if not shared else ''}": (
        lambda cell=cell, bidirectional=bidirectional, shared=shared: Recurrent(
            7, cell, bidirectional, shared_input=shared
        )
    )
    for cell in ("rnn", "gru", "lstm")
    for bidirectional, shared in ((True, True), (True, False), (False, True))
}


def run(make, shape, recompute=False, dtype="float32"):
    """Returns outputs and gradients in training."""
    tf.keras.utils.set_random_seed(3)
    layer = make()
    generator = np.random.default_rng(0)
    x = generator.normal(size=shape).astype(np.float32)
    for row, length in zip(x, LENGTHS, strict=True):
        row[length:] = np.nan
    x = tf.constant(x, dtype)
    layer.build(x.shape)
    kwargs = (
        {} if isinstance(layer, SequenceConv2D | SequenceDense | RowConv) else {"training": True}
    )

    @tf.function
    def differentiate():
        context = recomputed_activations() if recompute else contextlib.nullcontext()
        with context, tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, LENGTHS, **kwargs)
            y = y[0] if isinstance(y, tuple) else y
            loss = tf.reduce_sum(tf.sin(tf.cast(y, tf.float32)))
        return y, tape.gradient(loss, [x, *layer.trainable_variables])

    y, (by_x, *by_variables) = differentiate()
    return [y, by_x, *by_variables]


def compare(ours, theirs, tolerance):
    for a, b in zip(ours, theirs, strict=True):
        if a is None:
            continue  # the native convolution leaves out a gradient that nobody needs
        scale = max(1.0, np.abs(b.numpy().astype(np.float32)).max())
        difference = tf.cast(a, tf.float32) - tf.cast(b, tf.float32)
        assert np.abs(difference).max() <= tolerance * scale


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_both_ways_give_the_same(name, recompute):
    shape = (5, 17, 9, 2) if "conv" in name and "row" not in name else (5, 17, 6)
    ours = run(LAYERS[name], shape, recompute)
    with native.portable():
        theirs = run(LAYERS[name], shape, recompute)
    compare(ours, theirs, 1e-5)


@pytest.mark.parametrize("cell", ["rnn", "gru"])
def test_half_precision_is_near_in_both_ways(cell):
    shape = (5, 17, 6)
    exact, *_ = run(lambda: Recurrent(7, cell), shape)
    policy = "mixed_bfloat16"
    half, *_ = run(lambda: Recurrent(7, cell, dtype=policy), shape, dtype="bfloat16")
    with native.portable():
        portable, *_ = run(lambda: Recurrent(7, cell, dtype=policy), shape, dtype="bfloat16")
    assert half.dtype == portable.dtype == tf.bfloat16
    compare([half], [exact], 0.02)
    compare([portable], [exact], 0.05)
    assert np.abs(tf.cast(half, tf.float32) - exact).max() > 1e-4
