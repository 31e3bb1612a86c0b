"""Batch normalisation against a composition in float64, natively and with TensorFlow's own."""

import numpy as np
import pytest
import tensorflow as tf

from ds2_tf.ops.batch_norm import batch_norm, fixed_batch_norm

EPSILON = 1e-3
SHAPES = [(5, 9, 3), (5, 9, 4, 3), (3, 300, 7, 33)]


def inputs(shape, seed=0):
    """Returns x with NaN past the lengths, lengths, gamma, beta and the gradient by y."""
    generator = np.random.default_rng(seed)
    x, by_y = generator.normal(1, 2, (2, *shape))
    lengths = generator.integers(0, shape[1], shape[0])
    lengths[:2] = 0, shape[1]
    for row, length in zip(x, lengths, strict=True):
        row[length:] = np.nan
    gamma, beta = generator.normal(3, 2, (2, shape[-1]))
    return x, lengths.astype(np.int32), gamma, beta, by_y


def identity(value):
    return value


def differentiated(function, x, gamma, beta, by_y):
    """Returns y, the moments if any, and the gradients of x, gamma and beta."""
    with tf.GradientTape() as tape:
        tape.watch((x, gamma, beta))
        y, *moments = tf.nest.flatten(function(x, gamma, beta))
    return [y, *moments, *tape.gradient(y, (x, gamma, beta), by_y)]


def reference(x, lengths, gamma, beta, by_y, clip, moments=None):
    """Returns the same in float64, from the valid frames alone."""
    valid = np.arange(x.shape[1]) < lengths[:, np.newaxis]

    def normalized(frames, gamma, beta):
        axes = list(range(x.ndim - 2))
        mean, variance = moments or tf.nn.moments(frames, axes)
        y = gamma * (frames - mean) * tf.math.rsqrt(variance + EPSILON) + beta
        y = tf.clip_by_value(y, 0.0, 20.0) if clip else y
        count = float(tf.size(frames) / x.shape[-1])
        return y if moments else (y, mean, variance, count)

    frames = tf.constant(x[valid])
    y, *middle, by_frames, by_gamma, by_beta = differentiated(
        normalized, frames, tf.constant(gamma), tf.constant(beta), by_y[valid]
    )
    padded = np.zeros((2, *x.shape))
    padded[0][valid], padded[1][valid] = y, by_frames
    return [padded[0], *middle, padded[1], by_gamma, by_beta]


def assert_near(found, expected, tolerance):
    for ours, theirs in zip(found, expected, strict=True):
        difference = np.abs(tf.cast(ours, tf.float64) - theirs).max()
        assert difference <= tolerance * max(1.0, np.abs(theirs).max())


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("way")
def test_values_moments_and_gradients(shape, clip):
    x, lengths, gamma, beta, by_y = inputs(shape)
    found = differentiated(
        lambda x, gamma, beta: batch_norm(
            x, lengths, gamma, beta, epsilon=EPSILON, sum_over_replicas=identity, clip=clip
        ),
        *(tf.constant(a, tf.float32) for a in (x, gamma, beta, by_y)),
    )
    assert_near(found, reference(x, lengths, gamma, beta, by_y, clip), 2e-5)


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.usefixtures("way")
def test_given_moments(clip):
    x, lengths, gamma, beta, by_y = inputs(SHAPES[1])
    mean, variance = np.array([0.5, 1.0, 2.0]), np.array([1.0, 4.0, 0.1])
    found = differentiated(
        lambda x, gamma, beta: fixed_batch_norm(
            x,
            lengths,
            gamma,
            beta,
            epsilon=EPSILON,
            mean=tf.constant(mean, tf.float32),
            variance=tf.constant(variance, tf.float32),
            clip=clip,
        ),
        *(tf.constant(a, tf.float32) for a in (x, gamma, beta, by_y)),
    )
    assert_near(found, reference(x, lengths, gamma, beta, by_y, clip, (mean, variance)), 2e-5)


@pytest.mark.usefixtures("way")
def test_bfloat16_rounds_values_alone():
    x, lengths, gamma, beta, by_y = inputs(SHAPES[2])
    half, half_by_y = (tf.cast(a, tf.bfloat16) for a in (x, by_y))
    found = differentiated(
        lambda x, gamma, beta: batch_norm(
            x, lengths, gamma, beta, epsilon=EPSILON, sum_over_replicas=identity
        ),
        half,
        *(tf.constant(a, tf.float32) for a in (gamma, beta)),
        half_by_y,
    )
    rounded, rounded_by_y = (tf.cast(a, tf.float64).numpy() for a in (half, half_by_y))
    expected = reference(rounded, lengths, gamma, beta, rounded_by_y, clip=False)
    assert found[0].dtype == found[4].dtype == tf.bfloat16
    assert_near(found[1:4], expected[1:4], 1e-5)
    assert_near(found, expected, 4e-2)


@pytest.mark.usefixtures("native_operations")
def test_a_large_mean_spoils_nothing():
    x, lengths, gamma, beta, by_y = inputs(SHAPES[2])
    x = np.float64(np.float32(x + 1000))
    found = differentiated(
        lambda x, gamma, beta: batch_norm(
            x, lengths, gamma, beta, epsilon=EPSILON, sum_over_replicas=identity
        ),
        *(tf.constant(a, tf.float32) for a in (x, gamma, beta, by_y)),
    )
    # The shift of the affine form holds some 1000 times the scale in float32.
    assert_near(found, reference(x, lengths, gamma, beta, by_y, False), 1e-3)


@pytest.mark.usefixtures("native_operations")
def test_lengths_beyond_the_frames_are_an_error():
    zeros = tf.zeros([2, 3, 4])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"lengths must lie in \[0, T\]"):
        fixed_batch_norm(
            zeros,
            tf.constant([4, 1]),
            tf.ones(4),
            tf.ones(4),
            epsilon=EPSILON,
            mean=tf.ones(4),
            variance=tf.ones(4),
        )
