"""The product of padded sequences and a matrix."""

import tensorflow as tf

from ds2_tf.layers import lengths as lengths_lib
from ds2_tf.native import ops as native


def projection(
    x: tf.Tensor, lengths: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor | None = None
) -> tf.Tensor:
    """Returns x W + b [B, T, N], zero past each length.

    One product of all frames: TensorFlow's batched one would write a gradient of W for each
    utterance before it sums them. On CPUs, where the native operations load, padding is left out of
    it.

    Args:
      x: [B, T, D]; what lies past the lengths is ignored.
      lengths: [B] int32.
      kernel: W [D, N].
      bias: b [N], or None for 0.
    """

    def product(frames: tf.Tensor) -> tf.Tensor:
        y = tf.matmul(frames, kernel)
        return y if bias is None else tf.nn.bias_add(y, bias)

    shape = tf.concat([tf.shape(x)[:2], kernel.shape[1:]], 0)
    if native.load() is not None:
        positions = tf.where(tf.sequence_mask(lengths, tf.shape(x)[1]))
        frames = product(tf.gather_nd(x, positions))
        y = tf.scatter_nd(positions, frames, tf.cast(shape, tf.int64))
    else:
        frames = tf.reshape(lengths_lib.mask_frames(x, lengths), [-1, kernel.shape[0]])
        y = tf.reshape(product(frames), shape)
        y = y if bias is None else lengths_lib.mask_frames(y, lengths)
    y.set_shape([*x.shape[:2], kernel.shape[1]])
    return y
