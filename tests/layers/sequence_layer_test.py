"""The contract of all layers over padded sequences."""

import copy

import keras
import numpy as np
import pytest
import tensorflow as tf

from ds2_tf.layers.block import Block
from ds2_tf.layers.conv import SequenceConv2D
from ds2_tf.layers.dense import SequenceDense
from ds2_tf.layers.recurrent import Recurrent
from ds2_tf.layers.row_conv import RowConv
from ds2_tf.layers.sequence_layer import SequenceLayer

VECTORS, IMAGES = (5,), (9, 2)
# Layer, shape of a frame, stride, lookahead, operations and values of a frame of the output. The
# operations: 2 for each weight, at each place of the frame.
LAYERS = {
    "dense": (lambda: SequenceDense(7), VECTORS, 1, 0, 2 * 5 * 7, 7),
    "dense with bias": (lambda: SequenceDense(7, use_bias=True), VECTORS, 1, 0, 2 * 5 * 7, 7),
    "row conv": (lambda: RowConv(3), VECTORS, 1, 3, 2 * 4 * 5, 5),
    "row conv with bias": (lambda: RowConv(1, use_bias=True), VECTORS, 1, 1, 2 * 2 * 5, 5),
    "conv": (
        lambda: SequenceConv2D(4, (5, 3), (3, 2)),
        IMAGES,
        3,
        2,
        2 * (5 * 3 * 2 * 4) * 5,  # 9 bins become 5
        5 * 4,
    ),
    "conv with bias": (
        lambda: SequenceConv2D(3, (3, 1), (2, 1), use_bias=True),
        IMAGES,
        2,
        1,
        2 * (3 * 2 * 3) * 9,
        9 * 3,
    ),
    # Gates times (inputs plus units) times units.
    "rnn forward": (lambda: Recurrent(3, "rnn", False), VECTORS, 1, 0, 2 * (5 + 3) * 3, 3),
    "lstm forward": (lambda: Recurrent(3, "lstm", False), VECTORS, 1, 0, 2 * 4 * (5 + 3) * 3, 3),
    "gru": (lambda: Recurrent(3, "gru"), VECTORS, 1, None, 2 * 3 * (5 + 2 * 3) * 3, 3),
    "gru with own input weights": (
        lambda: Recurrent(3, "gru", shared_input=False),
        VECTORS,
        1,
        None,
        2 * 2 * 3 * (5 + 3) * 3,
        3,
    ),
    "rnn without batch norm": (
        lambda: Recurrent(3, "rnn", batch_norm=False, batch_norm_momentum=0.5),
        VECTORS,
        1,
        None,
        2 * (5 + 2 * 3) * 3,
        3,
    ),
    "block": (
        lambda: Block(SequenceConv2D(4, (5, 3), (3, 2)), batch_norm_momentum=0.5),
        IMAGES,
        3,
        2,
        2 * (5 * 3 * 2 * 4) * 5,
        5 * 4,
    ),
    "block without batch norm": (
        lambda: Block(RowConv(3, use_bias=True), batch_norm=False),
        VECTORS,
        1,
        3,
        2 * 4 * 5,
        5,
    ),
}
LENGTHS = np.array([13, 0, 1, 8, 12], np.int32)


def make(name):
    """Returns a layer with random weights, and the shape of its frames."""
    factory, frame_shape, *_ = LAYERS[name]
    layer = factory()
    layer.build((None, None, *frame_shape))
    generator = np.random.default_rng(2)
    for weight in layer.weights:
        is_scale = weight.path.split("/")[-1] in ("moving_variance", "gamma")
        weight.assign(generator.normal(2.0 if is_scale else 0.0, 0.3, weight.shape))
    return layer, frame_shape


def frames(shape, length):
    return np.random.default_rng(length).normal(size=(length, *shape)).astype(np.float32)


def batch(shape, num_frames, padding):
    x = np.full((len(LENGTHS), num_frames, *shape), padding, np.float32)
    for row, length in zip(x, LENGTHS, strict=True):
        row[:length] = frames(shape, length)
    return x


def run(layer, x, lengths):
    y = layer(tf.constant(x), tf.constant(lengths))
    return y[0] if isinstance(y, tuple) else y


@pytest.mark.parametrize("name", LAYERS)
def test_an_utterance_gives_the_same_alone_and_in_any_batch(name):
    layer, shape = make(name)
    stride = LAYERS[name][2]
    found = [
        run(layer, batch(shape, n, padding), LENGTHS) for n, padding in ((13, 0), (20, np.nan))
    ]
    num_outputs = layer.output_lengths(tf.constant(LENGTHS)).numpy().tolist()
    assert num_outputs == [len(range(0, length, stride)) for length in LENGTHS]
    for i, length in enumerate(LENGTHS):
        alone = [] if length == 0 else run(layer, frames(shape, length)[None], [length])[0]
        assert len(alone) == num_outputs[i]
        for y in found:
            assert not y.numpy()[i, num_outputs[i] :].any()
            if length:
                np.testing.assert_allclose(y[i, : num_outputs[i]], alone, rtol=1e-4, atol=1e-5)
    assert np.abs(found[0]).max() > 0.1


@pytest.mark.parametrize("name", LAYERS)
def test_padding_reaches_no_gradient(name):
    found = []
    for num_frames, padding in ((13, 0.0), (20, np.nan)):
        layer, shape = make(name)
        x = tf.constant(batch(shape, num_frames, padding))
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.square(run(layer, x, LENGTHS)))
        by_x, *others = tape.gradient(loss, [x, *(w.value for w in layer.trainable_weights)])
        assert not by_x.numpy()[:, 13:].any()
        found.append([by_x[:, :13], *others])
    for a, b in zip(*found, strict=True):
        assert np.abs(a).max() > 0
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_an_output_depends_on_as_many_frames_ahead_as_stated(name):
    """Each frame is changed in turn, in several utterances: clipped units don't tell."""
    layer, shape = make(name)
    _, _, stride, lookahead, _, _ = LAYERS[name]
    assert (layer.time_stride, layer.lookahead_frames) == (stride, lookahead)
    x = np.random.default_rng(5).normal(size=(6, 1, 8, *shape))
    changed = np.concatenate([x] * 9, axis=1)
    for t in range(8):
        changed[:, t, t] += 2.0
    y = run(layer, changed.reshape(54, 8, *shape).astype(np.float32), [8] * 54).numpy()
    y = y.reshape(6, 9, y.shape[1], -1)
    differs = (np.abs(y[:, :8] - y[:, 8:]) > 1e-5).any((0, 3))
    for t, reached in enumerate(differs.T):
        expected = 7 if lookahead is None else min(t * stride + lookahead, 7)
        assert np.flatnonzero(reached).max() == expected


@pytest.mark.parametrize("name", LAYERS)
def test_operations_and_values_of_a_frame(name):
    layer, shape = make(name)
    *_, flops, num_values = LAYERS[name]
    assert layer.flops_per_frame() == flops
    assert layer.output_values_per_frame() == num_values
    assert np.prod(run(layer, frames(shape, 4)[None], [4]).shape[2:]) == num_values
    # At the least, what it is computed from is kept.
    assert layer.kept_values_per_frame() >= LAYERS[name][2] * np.prod(shape)


@pytest.mark.parametrize("name", LAYERS)
def test_saves_and_loads(name):
    layer, shape = make(name)
    content = keras.saving.serialize_keras_object(layer)
    before = copy.deepcopy(content)
    again = keras.saving.deserialize_keras_object(content)
    assert type(again) is type(layer)
    assert content == before
    assert keras.saving.serialize_keras_object(again)["config"] == content["config"]
    if not again.built:
        again.build((None, None, *shape))
    for weight, value in zip(again.weights, layer.weights, strict=True):
        weight.assign(value)
    x = batch(shape, 13, 0.0)
    np.testing.assert_array_equal(run(again, x, LENGTHS), run(layer, x, LENGTHS))


def test_a_new_layer_must_say_what_it_costs():
    layer = SequenceLayer()
    assert (layer.time_stride, layer.lookahead_frames) == (1, 0)
    for cost in (
        layer.flops_per_frame,
        layer.output_values_per_frame,
        layer.kept_values_per_frame,
    ):
        with pytest.raises(NotImplementedError):
            cost()
