import numpy as np
import pytest
import tensorflow as tf

from ds2_tf.native import ops as native
from ds2_tf.ops import recurrence_portable
from ds2_tf.ops.cells import CELLS
from ds2_tf.ops.recurrence import recurrence


@pytest.fixture(params=CELLS)
def cell(request):
    return CELLS[request.param]


def automatic(cell, projected, weights, state):
    """The same recurrence unrolled, whose gradient TensorFlow finds itself."""
    units = weights.shape[1]
    states = []
    for frame in tf.unstack(projected):
        state = cell.step(frame, tf.matmul(state[..., :units], weights), state)
        states.append(state)
    return tf.stack(states)


@pytest.mark.parametrize("num_frames", [1, 2, 9])
def test_gradient_equals_automatic_differentiation(cell, num_frames):
    generator = np.random.default_rng(num_frames)
    units, size = 4, 4 * cell.num_gates
    projected = tf.constant(generator.normal(0, 2, (num_frames, 2, 3, size)))
    weights = tf.constant(generator.normal(0, 1, (2, units, size)))
    initial = tf.constant(generator.normal(0, 2, (2, 3, units * cell.num_states)))
    outer = tf.constant(generator.normal(size=(num_frames, 2, 3, units * cell.num_states)))
    results = []
    for function in (recurrence_portable.recurrence, automatic):
        with tf.GradientTape() as tape:
            tape.watch([projected, weights, initial])
            states = function(cell, projected, weights, initial)
            loss = tf.reduce_sum(states * outer)
        results.append([states, *tape.gradient(loss, [projected, weights, initial])])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-10)
    assert np.abs(results[0][1]).max() > 0


@pytest.mark.parametrize("name", ["rnn", "gru"])
def test_values_clip_at_20(name):
    cell = CELLS[name]
    projected = tf.fill([1, 1, 1, cell.num_gates], 1000.0)
    weights = tf.zeros([1, 1, cell.num_gates])
    states = recurrence_portable.recurrence(cell, projected, weights, tf.zeros([1, 1, 1]))
    assert states.numpy().item() == 20


def test_no_frames_and_no_utterances(cell):
    weights = tf.zeros([2, 3, 3 * cell.num_gates])
    for shape in ((0, 2, 4), (5, 2, 0)):
        states = recurrence_portable.recurrence(
            cell,
            tf.zeros([*shape, 3 * cell.num_gates]),
            weights,
            tf.zeros([*shape[1:], 3 * cell.num_states]),
        )
        assert states.shape == (*shape, 3 * cell.num_states)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("num_frames", [1, 16, 35])
def test_lite_form_equals_the_other(cell, num_frames, known):
    generator = np.random.default_rng(num_frames)
    units = 4
    arguments = [
        tf.constant(generator.normal(size=shape), tf.float32)
        for shape in (
            (num_frames, 2, 3, units * cell.num_gates),
            (2, units, units * cell.num_gates),
            (2, 3, units * cell.num_states),
        )
    ]
    expected = recurrence_portable.recurrence(cell, *arguments)

    @tf.function(input_signature=[tf.TensorSpec([num_frames if known else None, 2, 3, None])])
    def lite(projected):
        projected.set_shape([projected.shape[0], *arguments[0].shape[1:]])
        return recurrence_portable.recurrence(cell, projected, *arguments[1:])

    with native.portable(lite=True):
        np.testing.assert_allclose(lite(arguments[0]), expected, atol=1e-6)


@pytest.mark.parametrize("name", CELLS)
def test_lite_form_has_the_same_last_states(name):
    generator = np.random.default_rng(0)
    cell, lengths = CELLS[name], tf.constant([0, 5, 3])
    projected = tf.constant(generator.normal(size=(3, 5, 4 * cell.num_gates)), tf.float32)
    weights = tf.constant(generator.normal(size=(1, 4, 4 * cell.num_gates)), tf.float32)
    initial = tf.constant(generator.normal(size=(1, 3, 4 * cell.num_states)), tf.float32)
    found = []
    for lite in (False, True):
        with native.portable(lite=lite):
            found.append(recurrence(name, projected, weights, lengths, initial)[1])
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)
