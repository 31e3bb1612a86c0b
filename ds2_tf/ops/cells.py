"""The recurrent cells: one step forward, and how its gradient flows back."""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from ds2_tf.layers.activation import CLIP, clipped_relu


class PulledBack(NamedTuple):
    """The gradient of a step's new state with respect to what the step was made of.

    Attributes:
      recurrent: [..., G], for the recurrent product U h_prev.
      projected: [..., G], for the projected input.
      state: [..., S], for the previous state on the direct way, not through U.
    """

    recurrent: tf.Tensor
    projected: tf.Tensor
    state: tf.Tensor


class Cell(NamedTuple):
    """A recurrent cell with H units.

    Its state is S = num_states * H values a frame, of which the first H are the output h; G =
    num_gates * H values come from the input and from the state.

    Attributes:
      num_gates: G / H.
      num_states: S / H.
      num_coefficients: K / H.
      step: (projected [..., G], recurrent [..., G], previous state [..., S]) -> state [..., S].
      coefficients: the same arguments -> [..., K], all that the gradient takes from the forward
        pass.
      pull_back: (coefficients [..., K], gradient of the state [..., S]) -> `PulledBack`; linear in
        the gradient.
    """

    num_gates: int
    num_states: int
    num_coefficients: int
    step: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]
    coefficients: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]
    pull_back: Callable[[tf.Tensor, tf.Tensor], PulledBack]


def _slope(x: tf.Tensor) -> tf.Tensor:
    return tf.cast((x > 0) & (x < CLIP), x.dtype)


def _simple_step(projected: tf.Tensor, recurrent: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
    return clipped_relu(projected + recurrent)


def _simple_coefficients(projected: tf.Tensor, recurrent: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
    return _slope(projected + recurrent)


def _simple_pull_back(coefficients: tf.Tensor, gradient: tf.Tensor) -> PulledBack:
    through = coefficients * gradient
    return PulledBack(through, through, tf.zeros_like(gradient))


def _gru_gates(projected: tf.Tensor, recurrent: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """Returns update gate z, reset gate r, the candidate before f, and its recurrent part."""
    units = projected.shape[-1] // 3
    projected_gates, projected_candidate = tf.split(projected, [2 * units, units], -1)
    recurrent_gates, recurrent_candidate = tf.split(recurrent, [2 * units, units], -1)
    update, reset = tf.split(tf.sigmoid(projected_gates + recurrent_gates), 2, -1)
    return update, reset, projected_candidate + reset * recurrent_candidate, recurrent_candidate


def _gru_step(projected: tf.Tensor, recurrent: tf.Tensor, previous: tf.Tensor) -> tf.Tensor:
    update, _, candidate, _ = _gru_gates(projected, recurrent)
    return previous + update * (clipped_relu(candidate) - previous)


def _gru_coefficients(projected: tf.Tensor, recurrent: tf.Tensor, previous: tf.Tensor) -> tf.Tensor:
    update, reset, candidate, recurrent_candidate = _gru_gates(projected, recurrent)
    by_update = (clipped_relu(candidate) - previous) * update * (1 - update)
    by_candidate = update * _slope(candidate)
    by_reset = by_candidate * recurrent_candidate * reset * (1 - reset)
    return tf.concat([by_update, by_reset, by_candidate, reset, 1 - update], -1)


def _gru_pull_back(coefficients: tf.Tensor, gradient: tf.Tensor) -> PulledBack:
    by_update, by_reset, by_candidate, reset, carry = tf.split(coefficients, 5, -1)
    gates = tf.concat([by_update * gradient, by_reset * gradient], -1)
    candidate = by_candidate * gradient
    return PulledBack(
        tf.concat([gates, candidate * reset], -1),
        tf.concat([gates, candidate], -1),
        carry * gradient,
    )


def _lstm_gates(
    projected: tf.Tensor, recurrent: tf.Tensor, previous: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    """Returns input gate, forget gate, output gate, candidate, previous and new memory."""
    units = projected.shape[-1] // 4
    gates, candidate = tf.split(projected + recurrent, [3 * units, units], -1)
    enter, keep, leave = tf.split(tf.sigmoid(gates), 3, -1)
    candidate = tf.tanh(candidate)
    _, old_memory = tf.split(previous, 2, -1)
    return enter, keep, leave, candidate, old_memory, keep * old_memory + enter * candidate


def _lstm_step(projected: tf.Tensor, recurrent: tf.Tensor, previous: tf.Tensor) -> tf.Tensor:
    _, _, leave, _, _, memory = _lstm_gates(projected, recurrent, previous)
    return tf.concat([leave * tf.tanh(memory), memory], -1)


def _lstm_coefficients(
    projected: tf.Tensor, recurrent: tf.Tensor, previous: tf.Tensor
) -> tf.Tensor:
    enter, keep, leave, candidate, old, memory = _lstm_gates(projected, recurrent, previous)
    shown = tf.tanh(memory)
    return tf.concat(
        [
            candidate * enter * (1 - enter),
            old * keep * (1 - keep),
            enter * (1 - candidate * candidate),
            shown * leave * (1 - leave),
            leave * (1 - shown * shown),
            keep,
        ],
        -1,
    )


def _lstm_pull_back(coefficients: tf.Tensor, gradient: tf.Tensor) -> PulledBack:
    by_enter, by_keep, by_candidate, by_leave, by_memory, keep = tf.split(coefficients, 6, -1)
    output, memory = tf.split(gradient, 2, -1)
    memory += output * by_memory
    gates = tf.concat(
        [by_enter * memory, by_keep * memory, by_leave * output, by_candidate * memory], -1
    )
    return PulledBack(gates, gates, tf.concat([tf.zeros_like(output), keep * memory], -1))


# h = f(Wx + Uh). Source: Deep Speech 2, section 3.2.
SIMPLE = Cell(1, 1, 1, _simple_step, _simple_coefficients, _simple_pull_back)

# h = (1 - z) h_prev + z f(Wx + r (U h_prev)): the gated unit with the reset gate after the product,
# so that one product serves all gates, and the clipped ReLU. Source: Deep Speech 2, section 3.3 and
# appendix.
GRU = Cell(3, 1, 5, _gru_step, _gru_coefficients, _gru_pull_back)

# c = f c_prev + i tanh(a), h = o tanh(c), without peepholes. The gates lie in the order i, f, o, a.
# Source: Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000.
LSTM = Cell(4, 2, 6, _lstm_step, _lstm_coefficients, _lstm_pull_back)

CELLS = {"rnn": SIMPLE, "gru": GRU, "lstm": LSTM}
