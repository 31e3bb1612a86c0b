"""Batch normalisation over the valid frames of sequences, and the clipped ReLU after it."""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from ds2_tf.layers import lengths as lengths_lib
from ds2_tf.layers.activation import clipped_relu
from ds2_tf.native import ops as native

Reduce = Callable[[tf.Tensor], tf.Tensor]


def is_native(dtype: tf.DType | str) -> bool:
    """Returns whether the native operations run for tensors of a type."""
    return dtype in (tf.float32, tf.bfloat16) and native.load() is not None


class Moments(NamedTuple):
    """Of each channel: mean [C], variance [C], and how many values are behind them; float32."""

    mean: tf.Tensor
    variance: tf.Tensor
    count: tf.Tensor


def batch_norm(
    x: tf.Tensor,
    lengths: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    *,
    epsilon: float,
    sum_over_replicas: Reduce,
    clip: bool = False,
) -> tuple[tf.Tensor, Moments]:
    """Returns gamma (x - mean) / sqrt(variance + epsilon) + beta [B, T, ..., C], and the moments.

    The gradient of x takes into account that the moments depend on it; that of the moments returned
    isn't propagated. Moments are float32, whatever x is. The native operations run where they load.

    Args:
      x: [B, T, ..., C] float; what lies past the lengths is ignored, and zero in y.
      lengths: [B] int32.
      gamma: [C] float32.
      beta: [C] float32.
      epsilon: keeps what divides away from 0.
      sum_over_replicas: adds up a float32 tensor over all replicas that share the moments.
      clip: whether y goes through the clipped ReLU.

    Source: Deep Speech 2, section 3.2.
    """
    if not is_native(x.dtype):
        moments = _moments(x, lengths, sum_over_replicas)
        y = affine(x, lengths, *_scale_and_shift(gamma, beta, epsilon, *moments[:2]), clip)
        return y, Moments(*map(tf.stop_gradient, moments))
    operations = native.load()

    @tf.custom_gradient
    def normalize(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tuple[tuple, Callable]:
        local = operations.ds2_sequence_moments(x, lengths)
        moments = _pooled(local.mean, local.variance, _count(x, lengths), sum_over_replicas)
        mean, variance, count = moments
        scale, shift = _scale_and_shift(gamma, beta, epsilon, mean, variance)

        def gradient(by_y: tf.Tensor, *_: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            by_beta, centred = operations.ds2_sequence_affine_sums(
                x, lengths, scale, shift, by_y, mean, clip=clip
            )
            inverse = tf.math.rsqrt(variance + epsilon)
            totals = sum_over_replicas(tf.stack([by_beta, centred])) / tf.maximum(count, 1.0)
            factor = -scale * tf.square(inverse) * totals[1]
            offset = -scale * totals[0] - factor * mean
            by_x = operations.ds2_sequence_affine_gradient(
                x, lengths, scale, shift, by_y, factor, offset, clip=clip
            )
            return by_x, centred * inverse, by_beta

        y = operations.ds2_sequence_affine(x, lengths, scale, shift, clip=clip)
        return (y, *moments), gradient

    y, *moments = normalize(x, tf.convert_to_tensor(gamma), tf.convert_to_tensor(beta))
    return y, Moments(*moments)


def fixed_batch_norm(
    x: tf.Tensor,
    lengths: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    *,
    epsilon: float,
    mean: tf.Tensor,
    variance: tf.Tensor,
    clip: bool = False,
) -> tf.Tensor:
    """Returns what `batch_norm` does, with a given mean [C] and variance [C]."""
    return affine(x, lengths, *_scale_and_shift(gamma, beta, epsilon, mean, variance), clip)


def affine(
    x: tf.Tensor, lengths: tf.Tensor, scale: tf.Tensor, shift: tf.Tensor, clip: bool
) -> tf.Tensor:
    """Returns x scale + shift, through the clipped ReLU if asked, zero past the lengths.

    Args:
      x: [B, T, ..., C] float.
      lengths: [B] int32.
      scale: [C] float32.
      shift: [C] float32.
      clip: whether the clipped ReLU follows.
    """
    if is_native(x.dtype):
        return native.load().ds2_sequence_affine(x, lengths, scale, shift, clip=clip)
    x = lengths_lib.mask_frames(x, lengths)
    y = x * tf.cast(scale, x.dtype) + tf.cast(shift, x.dtype)
    return lengths_lib.mask_frames(clipped_relu(y) if clip else y, lengths)


@tf.RegisterGradient("Ds2>SequenceAffine")
def _affine_gradient(op: tf.Operation, by_y: tf.Tensor) -> list[tf.Tensor | None]:
    x, lengths, scale, shift = op.inputs
    operations, clip = native.load(), op.get_attr("clip")
    zeros = tf.zeros_like(scale)
    by_shift, by_scale = operations.ds2_sequence_affine_sums(
        x, lengths, scale, shift, by_y, zeros, clip=clip
    )
    by_x = operations.ds2_sequence_affine_gradient(
        x, lengths, scale, shift, by_y, zeros, zeros, clip=clip
    )
    return [by_x, None, by_scale, by_shift]


def _scale_and_shift(
    gamma: tf.Tensor, beta: tf.Tensor, epsilon: float, mean: tf.Tensor, variance: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    scale = gamma * tf.math.rsqrt(variance + epsilon)
    return scale, beta - mean * scale


def _count(x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    positions_per_frame = tf.reduce_prod(tf.shape(x)[2:-1])
    return tf.cast(tf.reduce_sum(lengths) * positions_per_frame, tf.float32)


def _pooled(
    mean: tf.Tensor, variance: tf.Tensor, count: tf.Tensor, sum_over_replicas: Reduce
) -> Moments:
    """Returns the moments of all replicas' values together. Source: Chan et al. 1979."""
    total = sum_over_replicas(count)
    divisor = tf.maximum(total, 1.0)
    pooled = sum_over_replicas(mean * count) / divisor
    squares = count * (variance + tf.square(mean - pooled))
    return Moments(pooled, sum_over_replicas(squares) / divisor, total)


def _moments(x: tf.Tensor, lengths: tf.Tensor, sum_over_replicas: Reduce) -> Moments:
    axes = list(range(x.shape.rank - 1))
    x = lengths_lib.mask_frames(tf.cast(x, tf.float32), lengths)
    count = sum_over_replicas(_count(x, lengths))
    divisor = tf.maximum(count, 1.0)
    mean = sum_over_replicas(tf.reduce_sum(x, axes)) / divisor
    centred = lengths_lib.mask_frames(x - mean, lengths)
    variance = sum_over_replicas(tf.reduce_sum(tf.square(centred), axes)) / divisor
    return Moments(mean, variance, count)
