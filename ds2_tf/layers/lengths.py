"""Exact lengths and masks of padded sequences."""

import tensorflow as tf


def mask_frames(x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns x with zeros past each length, whatever stood there (NaN too).

    Args:
      x: [B, T, ...].
      lengths: [B] int32.
    """
    valid = tf.sequence_mask(lengths, tf.shape(x)[1])
    for _ in x.shape[2:]:
        valid = tf.expand_dims(valid, -1)
    return tf.where(valid, x, tf.zeros([], x.dtype))


def strided(lengths: tf.Tensor, stride: int) -> tf.Tensor:
    """Returns (T - 1) // stride + 1, the frames after a stride; 0 stays 0.

    Args:
      lengths: [B] int32.
      stride: >= 1.
    """
    return (lengths + stride - 1) // stride
