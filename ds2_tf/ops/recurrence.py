"""The recurrence of Deep Speech 2 over padded sequences, in one direction or both."""

import tensorflow as tf

from ds2_tf.native import ops as native
from ds2_tf.ops import recurrence_portable
from ds2_tf.ops.cells import CELLS

_NATIVE_CELLS = ("rnn", "gru")


def recurrence(
    cell: str, projected: tf.Tensor, weights: tf.Tensor, lengths: tf.Tensor
) -> tf.Tensor:
    """Returns the outputs [B, T, H] of D recurrences from states of zeros, summed.

    The second direction runs backward, from each utterance's own last frame. The native operation
    runs where it loads and knows the cell, a TensorFlow loop otherwise. In half precision the
    products' factors are rounded, and sums are float32. First derivatives only.

    Args:
      cell: one of `CELLS`.
      projected: [B, T, G] float, the inputs times their weights, or [B, T, D * G] when each
        direction has its own. What lies past the lengths has no influence.
      weights: [D, H, G] float, the recurrent weights U of each direction, D = 1 or 2.
      lengths: [B] int32.

    Source: Deep Speech 2, sections 3.1 to 3.3.
    """
    operations = native.load() if cell in _NATIVE_CELLS else None
    if operations is None or projected.dtype not in (tf.float32, tf.bfloat16):
        return _portable(cell, projected, weights, lengths)
    start = tf.zeros([tf.shape(weights)[0], tf.shape(projected)[0], tf.shape(weights)[1]])
    outputs, *_ = operations.ds2_recurrence(
        tf.cast(projected, tf.float32),
        tf.cast(weights, tf.float32),
        lengths,
        start,
        cell=cell,
        round_to_bfloat16=projected.dtype == tf.bfloat16,
    )
    return tf.cast(outputs, projected.dtype)


@tf.RegisterGradient("Ds2>Recurrence")
def _recurrence_gradient(
    op: tf.Operation, by_outputs: tf.Tensor, by_final: tf.Tensor, *_: tf.Tensor
) -> list[tf.Tensor | None]:
    projected, weights, lengths, _ = op.inputs
    _, final, previous, kept = op.outputs
    by_projected, by_weights, by_initial = native.load().ds2_recurrence_gradient(
        projected,
        weights,
        lengths,
        final,
        previous,
        kept,
        by_outputs,
        by_final,
        cell=op.get_attr("cell").decode(),
        round_to_bfloat16=op.get_attr("round_to_bfloat16"),
    )
    return [by_projected, by_weights, None, by_initial]


def _portable(cell: str, projected: tf.Tensor, weights: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    num_directions = weights.shape[0]
    shared = projected.shape[-1] == weights.shape[-1]
    inputs = [projected] * num_directions if shared else tf.split(projected, num_directions, -1)
    if num_directions == 2:
        inputs[1] = _reverse(inputs[1], lengths)
    outputs = recurrence_portable.recurrence(
        CELLS[cell], tf.transpose(tf.stack(inputs), [2, 0, 1, 3]), weights
    )
    outputs = tf.transpose(outputs, [1, 2, 0, 3])
    if num_directions == 1:
        return outputs[0]
    return outputs[0] + _reverse(outputs[1], lengths)


def _reverse(x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns x [B, T, ...] with each utterance's valid frames in reverse order."""
    return tf.reverse_sequence(x, lengths, seq_axis=1, batch_axis=0)
