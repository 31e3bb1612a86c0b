"""The product of padded sequences and a matrix."""

import tensorflow as tf

from ds2_tf.layers import lengths as lengths_lib
from ds2_tf.native import ops as native


def projection(x: tf.Tensor, lengths: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """Returns x W [B, T, N], zero past each length.

    One product of all frames: TensorFlow's batched one would write a gradient of W for each
    utterance before it sums them. On CPUs, where the native operations load, padding is left out of
    it.

    Args:
      x: [B, T, D]; what lies past the lengths is ignored.
      lengths: [B] int32.
      kernel: W [D, N].
    """
    shape = tf.concat([tf.shape(x)[:2], kernel.shape[1:]], 0)
    if native.load() is None:
        frames = tf.reshape(lengths_lib.mask_frames(x, lengths), [-1, kernel.shape[0]])
        y = tf.reshape(tf.matmul(frames, kernel), shape)
    else:
        positions = tf.where(tf.sequence_mask(lengths, tf.shape(x)[1]))
        y = tf.scatter_nd(
            positions, tf.matmul(tf.gather_nd(x, positions), kernel), tf.cast(shape, tf.int64)
        )
    return tf.ensure_shape(y, [*x.shape[:2], kernel.shape[1]])
