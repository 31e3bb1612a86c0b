"""Connectionist temporal classification by TensorFlow's own operations."""

import tensorflow as tf

from ds2_tf.alphabet import BLANK


def required_frames(labels: tf.Tensor, label_lengths: tf.Tensor) -> tf.Tensor:
    """Returns [B] int32, the fewest frames that can emit the labels.

    Each label takes one frame, and two equal neighbours need a blank between them.

    Args:
      labels: [B, U] int32, padded with anything.
      label_lengths: [B] int32.
    """
    repeats = tf.cast(labels[:, 1:] == labels[:, :-1], tf.int32)
    inside = tf.sequence_mask(label_lengths - 1, tf.shape(repeats)[1], tf.int32)
    return label_lengths + tf.reduce_sum(repeats * inside, axis=1)


def ctc_loss(
    logits: tf.Tensor, logit_lengths: tf.Tensor, labels: tf.Tensor, label_lengths: tf.Tensor
) -> tf.Tensor:
    """Returns -log p(labels | logits) of each utterance, in nats.

    The loss is not divided by any length. An utterance without labels costs what an all-blank
    output costs; one without frames and labels costs 0. The sums over paths run in float64: in
    float32 their gradient would be wrong by some 1e-3, enough for two replicas to drift apart from
    one within a few steps.

    Args:
      logits: [B, T', V] float; the softmax is taken here. Label 0 is the blank.
      logit_lengths: [B] int32; frames past them are ignored, and their gradient is 0.
      labels: [B, U] int32 in [1, V), padded with anything.
      label_lengths: [B] int32.

    Returns:
      [B] float32.

    Raises:
      tf.errors.InvalidArgumentError: names the batch rows whose labels need more frames than there
        are: their loss is infinite, and no training can go on from there.

    Source: Graves et al. 2006; Deep Speech 2, section 3.
    """
    infeasible = tf.where(logit_lengths < required_frames(labels, label_lengths))[:, 0]
    check = tf.debugging.Assert(
        tf.size(infeasible) == 0,
        ["the labels of these batch rows need more frames than there are:", infeasible],
    )
    with tf.control_dependencies([check]):
        logits = tf.cast(logits, tf.float64)
    valid = tf.sequence_mask(logit_lengths, tf.shape(logits)[1])
    logits = tf.where(valid[:, :, tf.newaxis], logits, tf.zeros([], logits.dtype))

    # TensorFlow's kernel takes neither rows without labels nor rows without frames: such a row
    # poses as one frame with one label, and its true loss is put in its place.
    is_empty = label_lengths == 0
    blank_costs = -tf.nn.log_softmax(logits)[:, :, BLANK]
    blank_costs = tf.where(valid, blank_costs, tf.zeros_like(blank_costs))
    logits = tf.concat([logits, tf.zeros_like(logits[:, :1])], axis=1)
    labels = tf.concat([labels, tf.ones_like(label_lengths)[:, tf.newaxis]], axis=1)
    labels = tf.where(is_empty[:, tf.newaxis], 1, labels)
    # This kernel's blank is the last label.
    losses = tf.compat.v1.nn.ctc_loss(
        labels=_sparse(labels - 1, tf.maximum(label_lengths, 1)),
        inputs=tf.roll(logits, -1, axis=2),
        sequence_length=tf.maximum(logit_lengths, 1),
        time_major=False,
    )
    losses = tf.where(is_empty, tf.reduce_sum(blank_costs, axis=1), losses)
    return tf.cast(losses, tf.float32)


def _sparse(labels: tf.Tensor, label_lengths: tf.Tensor) -> tf.SparseTensor:
    """Returns the labels in the form that TensorFlow's fast CPU kernel reads."""
    positions = tf.where(tf.sequence_mask(label_lengths, tf.shape(labels)[1]))
    values = tf.gather_nd(labels, positions)
    return tf.SparseTensor(positions, values, tf.shape(labels, out_type=tf.int64))
