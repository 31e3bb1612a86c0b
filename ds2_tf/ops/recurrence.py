"""The recurrence of Deep Speech 2 over padded sequences, in one direction or both."""

import tensorflow as tf

from ds2_tf.layers import lengths as lengths_lib
from ds2_tf.native import ops as native
from ds2_tf.ops import recurrence_portable
from ds2_tf.ops.cells import CELLS

_NATIVE_CELLS = ("rnn", "gru")


def recurrence(
    cell: str,
    projected: tf.Tensor,
    weights: tf.Tensor,
    lengths: tf.Tensor,
    initial: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the outputs [B, T, H] of D recurrences, summed, and their last states [D, B, S].

    They are zero past each length. The second direction runs backward, from each utterance's own
    last frame. The native operation runs where it loads and knows the cell, a TensorFlow loop
    otherwise. In half precision the products' factors are rounded, and sums are float32. First
    derivatives only.

    Args:
      cell: one of `CELLS`.
      projected: [B, T, G] float, the inputs times their weights, or [B, T, D * G] when each
        direction has its own. What lies past the lengths has no influence.
      weights: [D, H, G] float, the recurrent weights U of each direction, D = 1 or 2.
      lengths: [B] int32; a row without frames keeps its state.
      initial: [D, B, S] float, the states to start from; None for zeros. S is H, 2 H for "lstm".

    Source: Deep Speech 2, sections 3.1 to 3.3.
    """
    if initial is None:
        size = CELLS[cell].num_states * weights.shape[1]
        initial = tf.zeros([weights.shape[0], tf.shape(projected)[0], size], projected.dtype)
    operations = native.load() if cell in _NATIVE_CELLS else None
    if operations is None or projected.dtype not in (tf.float32, tf.bfloat16):
        outputs, final = _portable(cell, projected, weights, lengths, initial)
        return lengths_lib.mask_frames(outputs, lengths), final
    outputs, final, *_ = operations.ds2_recurrence(
        tf.cast(projected, tf.float32),
        tf.cast(weights, tf.float32),
        lengths,
        tf.cast(initial, tf.float32),
        cell=cell,
        round_to_bfloat16=projected.dtype == tf.bfloat16,
    )
    return tf.cast(outputs, projected.dtype), tf.cast(final, projected.dtype)


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


def _portable(
    cell: str, projected: tf.Tensor, weights: tf.Tensor, lengths: tf.Tensor, initial: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    num_directions = weights.shape[0]
    shared = projected.shape[-1] == weights.shape[-1]
    inputs = [projected] * num_directions if shared else tf.split(projected, num_directions, -1)
    if num_directions == 2:
        inputs[1] = _reverse(inputs[1], lengths)
    states = recurrence_portable.recurrence(
        CELLS[cell], tf.transpose(tf.stack(inputs), [2, 0, 1, 3]), weights, initial
    )
    states = tf.transpose(states, [1, 2, 0, 3])
    final = _final_states(initial, states, lengths)
    outputs = states[..., : weights.shape[1]]
    if num_directions == 1:
        return outputs[0], final
    return outputs[0] + _reverse(outputs[1], lengths), final


def _final_states(initial: tf.Tensor, states: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns those after the last valid frame [D, B, S], given all of them [D, B, T, S]."""
    if native.is_lite():
        # By a gather, states and outputs would need one scale: its quantizer gives up then.
        is_last = tf.expand_dims(tf.one_hot(lengths - 1, tf.shape(states)[2]), -1)
        unmoved = tf.expand_dims(tf.cast(lengths == 0, states.dtype), -1)
        return unmoved * initial + tf.reduce_sum(is_last * states, axis=2)
    return tf.gather(
        tf.concat([initial[:, :, tf.newaxis], states], axis=2),
        tf.broadcast_to(lengths, tf.shape(states)[:2]),
        batch_dims=2,
    )


def _reverse(x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns x [B, T, ...] with each utterance's valid frames in reverse order."""
    return tf.reverse_sequence(x, lengths, seq_axis=1, batch_axis=0)
