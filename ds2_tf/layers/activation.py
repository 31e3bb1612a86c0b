"""The non-linearity of Deep Speech 2."""

import tensorflow as tf

CLIP = 20.0


def clipped_relu(x: tf.Tensor) -> tf.Tensor:
    """Returns min(max(x, 0), 20). Source: Deep Speech 2, section 3.1."""
    return tf.clip_by_value(x, 0.0, CLIP)
