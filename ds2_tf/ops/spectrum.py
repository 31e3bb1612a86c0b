"""The power of each frequency of frames of samples."""

import numpy as np
import tensorflow as tf

from ds2_tf.native import ops as native


def power_spectrum(frames: tf.Tensor) -> tf.Tensor:
    """Returns the squared magnitudes [..., N // 2 + 1] of the Fourier transform of real frames.

    Args:
      frames: [..., N] float32, N known when the graph is made.
    """
    if native.is_lite():
        real, imaginary = _transform_by_parts(frames)
    else:
        spectrum = tf.signal.rfft(frames, [frames.shape[-1]])
        real, imaginary = tf.math.real(spectrum), tf.math.imag(spectrum)
    return tf.square(real) + tf.square(imaginary)


def _transform_by_parts(frames: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns real and imaginary parts [..., N // 2 + 1]: LiteRT knows transforms of 2^k alone.

    N = P 2^k with odd P: every P-th sample is a part, the parts are transformed, and X[f] =
    sum over parts r of exp(-2 pi i r f / N) X_r[f mod 2^k] (Cooley and Tukey, 1965). No product of
    matrices, so no quantizer rounds the features.
    """
    size = frames.shape[-1]
    length = size & -size
    num_parts = size // length
    shape = tf.shape(frames)[:-1]
    parts = tf.reshape(frames, tf.concat([shape, [length, num_parts]], 0))
    spectra = tf.signal.rfft(tf.linalg.matrix_transpose(parts), [length])
    frequency = np.arange(size // 2 + 1)
    bins = frequency % length
    mirrored = bins > length // 2
    bins = np.where(mirrored, length - bins, bins)
    sign = np.where(mirrored, -1, 1).astype(np.float32)
    real = tf.gather(tf.math.real(spectra), bins, axis=-1)
    imaginary = tf.gather(tf.math.imag(spectra), bins, axis=-1) * sign
    angle = 2 * np.pi / size * np.arange(num_parts)[:, np.newaxis] * frequency
    cosine, sine = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    return (
        tf.reduce_sum(real * cosine + imaginary * sine, axis=-2),
        tf.reduce_sum(imaginary * cosine - real * sine, axis=-2),
    )
