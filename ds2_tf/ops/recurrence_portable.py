"""The recurrence of Deep Speech 2 with a gradient of its own.

The cells' products with the weights of the input are computed before, for all frames at once; what
is left, frame after frame, is one product with the previous output. The gradient walks back with
one product a frame, too: all that depends on the forward pass alone is computed for all frames at
once.
"""

from collections.abc import Callable

import tensorflow as tf

from ds2_tf.native import ops as native
from ds2_tf.ops.cells import Cell

_BLOCK = 16  # frames


def recurrence(
    cell: Cell, projected: tf.Tensor, weights: tf.Tensor, initial: tf.Tensor
) -> tf.Tensor:
    """Runs D independent recurrences side by side.

    Args:
      cell: one of `cells.CELLS`.
      projected: [T, D, B, G] float, the inputs times their weights. No mask is applied: a
        sequence's padding follows its frames and cannot reach them.
      weights: [D, H, G] float, the recurrent weights U of each direction.
      initial: [D, B, S] float, the states to start from.

    Returns:
      The states [T, D, B, S], of which the first H values are the outputs h. First derivatives
      only.
    """

    @tf.custom_gradient
    def run(
        projected: tf.Tensor, weights: tf.Tensor, initial: tf.Tensor
    ) -> tuple[tf.Tensor, Callable]:
        states = _forward(cell, projected, weights, initial)

        def gradient(by_states: tf.Tensor) -> tuple[tf.Tensor, ...]:
            previous = tf.concat([initial[tf.newaxis], states[:-1]], 0)
            return _backward(cell, projected, weights, previous, by_states)

        return states, gradient

    return run(projected, weights, initial)


def _forward(cell: Cell, projected: tf.Tensor, weights: tf.Tensor, initial: tf.Tensor) -> tf.Tensor:
    """Returns the states [T, D, B, S]."""
    if native.is_lite():
        if projected.shape[0] is not None:
            return _unrolled(cell, projected, weights, initial)
        return _in_blocks(cell, projected, weights, initial)
    num_frames = tf.shape(projected)[0]
    size = cell.num_states * weights.shape[1]
    state_shape = [projected.shape[1], projected.shape[2], size]
    inputs = tf.TensorArray(projected.dtype, num_frames).unstack(projected)
    states = tf.TensorArray(projected.dtype, num_frames, element_shape=state_shape)

    def step(
        t: tf.Tensor, state: tf.Tensor, states: tf.TensorArray
    ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
        recurrent = tf.matmul(_outputs(cell, state), weights)
        state = cell.step(inputs.read(t), recurrent, state)
        return t + 1, state, states.write(t, state)

    *_, states = tf.while_loop(
        lambda t, *_: t < num_frames,
        step,
        (tf.constant(0), tf.ensure_shape(initial, state_shape), states),
    )
    return states.stack()


def _unrolled(
    cell: Cell, projected: tf.Tensor, weights: tf.Tensor, initial: tf.Tensor
) -> tf.Tensor:
    """Returns the states [T, D, B, S] for a known T: products of two matrices, and no loop."""
    state, states = initial, []
    directions = tf.unstack(weights)
    for frame in tf.unstack(projected):
        outputs = tf.unstack(_outputs(cell, state))
        recurrent = tf.stack([tf.matmul(h, u) for h, u in zip(outputs, directions, strict=True)])
        state = cell.step(frame, recurrent, state)
        states.append(state)
    return tf.stack(states)


def _in_blocks(
    cell: Cell, projected: tf.Tensor, weights: tf.Tensor, initial: tf.Tensor
) -> tf.Tensor:
    """Returns the states [T, D, B, S] for any T: LiteRT copies all results in each round."""
    num_frames = tf.shape(projected)[0]
    num_blocks = (num_frames + _BLOCK - 1) // _BLOCK
    padding = [[0, num_blocks * _BLOCK - num_frames], [0, 0], [0, 0], [0, 0]]
    frame_shape = projected.shape[1:]
    blocks = tf.reshape(tf.pad(projected, padding), [-1, _BLOCK, *frame_shape])
    inputs = tf.TensorArray(projected.dtype, num_blocks, element_shape=[_BLOCK, *frame_shape])
    inputs = inputs.unstack(blocks)
    states = tf.TensorArray(projected.dtype, num_blocks, element_shape=[_BLOCK, *initial.shape])

    def step(
        k: tf.Tensor, state: tf.Tensor, states: tf.TensorArray
    ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
        block = _unrolled(cell, inputs.read(k), weights, state)
        return k + 1, block[-1], states.write(k, block)

    *_, states = tf.while_loop(
        lambda k, *_: k < num_blocks, step, (tf.constant(0), initial, states)
    )
    return tf.reshape(states.stack(), [-1, *initial.shape])[:num_frames]


def _backward(
    cell: Cell,
    projected: tf.Tensor,
    weights: tf.Tensor,
    previous: tf.Tensor,
    by_states: tf.Tensor,
) -> tuple[tf.Tensor, ...]:
    """Returns the gradients for the arguments, given the states before each frame and theirs."""
    num_frames = tf.shape(projected)[0]
    outputs = _outputs(cell, previous)
    recurrent = tf.einsum("tdbh,dhg->tdbg", outputs, weights)
    coefficients = cell.coefficients(projected, recurrent, previous)
    coefficients_of = tf.TensorArray(previous.dtype, num_frames).unstack(coefficients)
    by_state_of = tf.TensorArray(previous.dtype, num_frames).unstack(by_states)
    totals = tf.TensorArray(previous.dtype, num_frames, element_shape=previous.shape[1:])
    start = tf.ensure_shape(tf.zeros(tf.shape(previous)[1:], previous.dtype), previous.shape[1:])

    def step(
        t: tf.Tensor, from_later: tf.Tensor, totals: tf.TensorArray
    ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
        total = from_later + by_state_of.read(t)
        pulled = cell.pull_back(coefficients_of.read(t), total)
        through_weights = tf.matmul(pulled.recurrent, weights, transpose_b=True)
        to_earlier = pulled.state + _as_state(cell, through_weights)
        return t - 1, to_earlier, totals.write(t, total)

    _, by_initial, totals = tf.while_loop(
        lambda t, *_: t >= 0,
        step,
        (num_frames - 1, start, totals),
    )
    pulled = cell.pull_back(coefficients, totals.stack())
    by_weights = tf.einsum("tdbh,tdbg->dhg", outputs, pulled.recurrent)
    return pulled.projected, by_weights, by_initial


def _outputs(cell: Cell, states: tf.Tensor) -> tf.Tensor:
    """Returns the outputs h [..., H] of states [..., S]."""
    if cell.num_states == 1:
        return states
    return states[..., : states.shape[-1] // cell.num_states]


def _as_state(cell: Cell, by_output: tf.Tensor) -> tf.Tensor:
    """Returns a gradient [..., H] of the output as one of the state [..., S]."""
    if cell.num_states == 1:
        return by_output
    return tf.concat([by_output, *[tf.zeros_like(by_output)] * (cell.num_states - 1)], -1)
