"""The recurrence of Deep Speech 2 with a gradient of its own.

The cells' products with the weights of the input are computed before, for all frames at once; what
is left, frame after frame, is one product with the previous state. The gradient walks back with one
product a frame, too: all that depends on the forward pass alone is computed for all frames at once.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from ds2_tf.layers.activation import CLIP, clipped_relu


class Derivatives(NamedTuple):
    """How a frame's state h answers to what it is made of, elementwise.

    Attributes:
      recurrent: [..., G], dh / d(U h_prev), the gates side by side.
      projected: [..., G], dh / d(projected input).
      carry: [..., H], dh / dh_prev on the direct way, not through U.
    """

    recurrent: tf.Tensor
    projected: tf.Tensor
    carry: tf.Tensor


class Cell(NamedTuple):
    """A recurrent cell.

    Attributes:
      num_gates: G = num_gates * H values a frame come from the input and from the state.
      step: (projected [..., G], recurrent [..., G], previous state [..., H]) -> state [..., H].
      derivatives: the same arguments -> `Derivatives`.
    """

    num_gates: int
    step: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]
    derivatives: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], Derivatives]


def _slope(x: tf.Tensor) -> tf.Tensor:
    return tf.cast((x > 0) & (x < CLIP), x.dtype)


def _simple_step(projected: tf.Tensor, recurrent: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
    return clipped_relu(projected + recurrent)


def _simple_derivatives(
    projected: tf.Tensor, recurrent: tf.Tensor, previous: tf.Tensor
) -> Derivatives:
    slope = _slope(projected + recurrent)
    return Derivatives(slope, slope, tf.zeros_like(previous))


def _gates(projected: tf.Tensor, recurrent: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """Returns update gate z, reset gate r, the candidate before f, and its recurrent part."""
    projected_gates, projected_candidate = tf.split(
        projected, [2 * projected.shape[-1] // 3, projected.shape[-1] // 3], -1
    )
    recurrent_gates, recurrent_candidate = tf.split(
        recurrent, [2 * recurrent.shape[-1] // 3, recurrent.shape[-1] // 3], -1
    )
    update, reset = tf.split(tf.sigmoid(projected_gates + recurrent_gates), 2, -1)
    return update, reset, projected_candidate + reset * recurrent_candidate, recurrent_candidate


def _gru_step(projected: tf.Tensor, recurrent: tf.Tensor, previous: tf.Tensor) -> tf.Tensor:
    update, _, candidate, _ = _gates(projected, recurrent)
    return previous + update * (clipped_relu(candidate) - previous)


def _gru_derivatives(
    projected: tf.Tensor, recurrent: tf.Tensor, previous: tf.Tensor
) -> Derivatives:
    update, reset, candidate, recurrent_candidate = _gates(projected, recurrent)
    by_update = (clipped_relu(candidate) - previous) * update * (1 - update)
    by_candidate = update * _slope(candidate)
    by_reset = by_candidate * recurrent_candidate * reset * (1 - reset)
    return Derivatives(
        tf.concat([by_update, by_reset, by_candidate * reset], -1),
        tf.concat([by_update, by_reset, by_candidate], -1),
        1 - update,
    )


# h = f(Wx + Uh). Source: Deep Speech 2, section 3.2.
SIMPLE = Cell(1, _simple_step, _simple_derivatives)

# h = (1 - z) h_prev + z f(Wx + r (U h_prev)): the gated unit with the reset gate after the product,
# so that one product serves all gates, and the clipped ReLU. Source: Deep Speech 2, section 3.3 and
# appendix.
GRU = Cell(3, _gru_step, _gru_derivatives)

CELLS = {"rnn": SIMPLE, "gru": GRU}


def recurrence(cell: Cell, projected: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Runs D independent recurrences side by side, from a state of zeros.

    Args:
      cell: `SIMPLE` or `GRU`.
      projected: [T, D, B, G] float, the inputs times their weights. No mask is applied: a
        sequence's padding follows its frames and cannot reach them.
      weights: [D, H, G] float, the recurrent weights U of each direction.

    Returns:
      The states [T, D, B, H]. First derivatives only.
    """

    @tf.custom_gradient
    def run(projected: tf.Tensor, weights: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        states = _forward(cell, projected, weights)
        return states, lambda gradient: _backward(cell, projected, weights, states, gradient)

    return run(projected, weights)


def _forward(cell: Cell, projected: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    num_frames = tf.shape(projected)[0]
    state_shape = [projected.shape[1], projected.shape[2], weights.shape[1]]
    inputs = tf.TensorArray(projected.dtype, num_frames).unstack(projected)
    states = tf.TensorArray(projected.dtype, num_frames, element_shape=state_shape)
    start = tf.zeros(
        [tf.shape(weights)[0], tf.shape(projected)[2], tf.shape(weights)[1]], projected.dtype
    )
    start = tf.ensure_shape(start, state_shape)

    def step(
        t: tf.Tensor, state: tf.Tensor, states: tf.TensorArray
    ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
        state = cell.step(inputs.read(t), tf.matmul(state, weights), state)
        return t + 1, state, states.write(t, state)

    *_, states = tf.while_loop(
        lambda t, *_: t < num_frames,
        step,
        (tf.constant(0), start, states),
    )
    return states.stack()


def _backward(
    cell: Cell,
    projected: tf.Tensor,
    weights: tf.Tensor,
    states: tf.Tensor,
    gradient: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the gradients for `projected` and `weights`."""
    num_frames = tf.shape(projected)[0]
    previous = tf.concat([tf.zeros_like(states[:1]), states[:-1]], 0)
    recurrent = tf.einsum("tdbh,dhg->tdbg", previous, weights)
    derivatives = cell.derivatives(projected, recurrent, previous)
    by_state = tf.TensorArray(states.dtype, num_frames).unstack(gradient)
    by_recurrent = tf.TensorArray(states.dtype, num_frames).unstack(derivatives.recurrent)
    carry = tf.TensorArray(states.dtype, num_frames).unstack(derivatives.carry)
    totals = tf.TensorArray(states.dtype, num_frames, element_shape=states.shape[1:])
    start = tf.ensure_shape(tf.zeros(tf.shape(states)[1:], states.dtype), states.shape[1:])
    repeats = [1, 1, cell.num_gates]

    def step(
        t: tf.Tensor, from_later: tf.Tensor, totals: tf.TensorArray
    ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
        total = by_state.read(t) + from_later
        through_weights = by_recurrent.read(t) * tf.tile(total, repeats)
        to_earlier = carry.read(t) * total + tf.matmul(through_weights, weights, transpose_b=True)
        return t - 1, to_earlier, totals.write(t, total)

    *_, totals = tf.while_loop(
        lambda t, *_: t >= 0,
        step,
        (num_frames - 1, start, totals),
    )
    total = tf.tile(totals.stack(), [1, *repeats])
    weights_gradient = tf.einsum("tdbh,tdbg->dhg", previous, derivatives.recurrent * total)
    return derivatives.projected * total, weights_gradient
