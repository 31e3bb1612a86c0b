import keras
import numpy as np
import pytest
import tensorflow as tf

from ds2_tf.layers.batch_norm import SequenceBatchNorm, collected_statistics


def make_batch(shape=(4, 7, 3), lengths=(7, 0, 2, 5), padding=np.nan):
    x = np.random.default_rng(0).normal(2, 3, shape).astype(np.float32)
    for row, length in zip(x, lengths, strict=True):
        row[length:] = padding
    return x, np.array(lengths, np.int32)


def valid_frames(x, lengths):
    return np.concatenate([row[:n] for row, n in zip(np.asarray(x), lengths, strict=True)])


@pytest.mark.parametrize("shape", [(4, 7, 3), (4, 7, 5, 3)])
def test_training_normalises_with_the_valid_frames_alone(shape):
    x, lengths = make_batch(shape)
    layer = SequenceBatchNorm(epsilon=0.0, momentum=0.9)
    y = layer(x, lengths, training=True)
    frames = valid_frames(x, lengths).reshape(-1, 3).astype(np.float64)
    expected = (frames - frames.mean(0)) / frames.std(0)
    np.testing.assert_allclose(valid_frames(y, lengths).reshape(-1, 3), expected, atol=1e-5)
    np.testing.assert_allclose(layer.moving_mean, 0.1 * frames.mean(0), rtol=1e-5)
    np.testing.assert_allclose(layer.moving_variance, 0.9 + 0.1 * frames.var(0), rtol=1e-5)
    assert not y.numpy()[1].any()


def test_inference_uses_the_running_averages():
    x, lengths = make_batch()
    layer = SequenceBatchNorm(epsilon=0.0)
    layer.build(x.shape)
    layer.moving_mean.assign([1, 2, 3])
    layer.moving_variance.assign([4, 9, 16])
    y = layer(x, lengths)
    expected = (valid_frames(x, lengths) - [1, 2, 3]) / [2, 3, 4]
    np.testing.assert_allclose(valid_frames(y, lengths), expected, rtol=1e-5)


def test_padding_changes_neither_gradients_nor_averages():
    x, lengths = make_batch(padding=0.0)
    noisy, _ = make_batch(padding=np.nan)
    wider = np.concatenate([noisy, np.full((4, 5, 3), np.nan, np.float32)], axis=1)
    results = []
    for batch in (tf.constant(x), tf.constant(noisy), tf.constant(wider)):
        layer = SequenceBatchNorm()
        layer.build(batch.shape)
        with tf.GradientTape() as tape:
            tape.watch(batch)
            y = layer(batch, lengths, training=True)
            loss = tf.reduce_sum(tf.sin(y[:, :7]))
        gradients = tape.gradient(loss, [batch, layer.gamma.value, layer.beta.value])
        gradients[0] = gradients[0][:, :7]
        results.append([loss, *gradients, layer.moving_mean.value, layer.moving_variance.value])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_batch_without_frames_leaves_the_averages_alone():
    layer = SequenceBatchNorm()
    y = layer(np.full((2, 3, 4), np.nan, np.float32), np.array([0, 0], np.int32), training=True)
    assert not y.numpy().any()
    np.testing.assert_array_equal(layer.moving_mean, np.zeros(4))
    np.testing.assert_array_equal(layer.moving_variance, np.ones(4))


def averages(layer):
    return layer.moving_mean.numpy(), layer.moving_variance.numpy()


@pytest.mark.parametrize("shape", [(4, 7, 3), (4, 7, 5, 3)])
def test_collected_statistics_move_the_averages_afterwards_only(shape):
    x, lengths = make_batch(shape)
    direct, collecting = (SequenceBatchNorm(momentum=0.9) for _ in range(2))
    expected_y = direct(x, lengths, training=True)
    with collected_statistics() as found:
        y = collecting(x, lengths, training=True)
    np.testing.assert_array_equal(y, expected_y)
    np.testing.assert_array_equal(averages(collecting), [np.zeros(3), np.ones(3)])

    (statistics,) = found
    frames = valid_frames(x, lengths).reshape(-1, 3).astype(np.float64)
    assert statistics.layer is collecting
    assert statistics.count == len(frames)
    np.testing.assert_allclose(statistics.mean, frames.mean(0), rtol=1e-5)
    np.testing.assert_allclose(statistics.variance, frames.var(0), rtol=1e-5)
    statistics.layer.move_averages(*statistics[1:])
    np.testing.assert_array_equal(averages(collecting), averages(direct))


def test_statistics_come_in_the_order_of_the_layers():
    x, lengths = make_batch()
    first, second = SequenceBatchNorm(), SequenceBatchNorm()
    with collected_statistics() as found:
        first(second(x, lengths, training=True), lengths, training=True)
    assert [statistics.layer for statistics in found] == [second, first]
    np.testing.assert_allclose(found[1].mean, np.zeros(3), atol=1e-5)


def test_what_takes_no_statistics_is_not_collected():
    x, lengths = make_batch()
    frozen = SequenceBatchNorm()
    frozen.trainable = False
    with collected_statistics() as found:
        SequenceBatchNorm()(x, lengths)
        frozen(x, lengths, training=True)
    assert found == []


def test_the_collection_ends_with_its_block():
    x, lengths = make_batch()
    layer = SequenceBatchNorm()
    with collected_statistics() as outer:
        layer(x, lengths, training=True)
        with collected_statistics() as inner:
            layer(x, lengths, training=True)
            layer(x, lengths, training=True)
        layer(x, lengths, training=True)
    assert (len(outer), len(inner)) == (2, 2)
    with pytest.raises(KeyError), collected_statistics():
        raise KeyError
    assert not layer.moving_mean.numpy().any()
    layer(x, lengths, training=True)
    assert layer.moving_mean.numpy().all()
    assert (len(outer), len(inner)) == (2, 2)


def test_averages_move_by_a_share_of_the_difference():
    layer = SequenceBatchNorm(momentum=0.75)
    layer.build((None, None, 2))
    layer.moving_mean.assign([4.0, -8.0])
    layer.moving_variance.assign([16.0, 2.0])
    layer.move_averages(tf.constant([8.0, 0.0]), tf.constant([0.0, 6.0]), tf.constant(5.0))
    np.testing.assert_allclose(averages(layer), [[5.0, -6.0], [12.0, 3.0]])
    layer.move_averages(tf.constant([9.0, 9.0]), tf.constant([9.0, 9.0]), tf.constant(0.0))
    np.testing.assert_allclose(averages(layer), [[5.0, -6.0], [12.0, 3.0]])


def test_a_frozen_layer_uses_its_averages_in_training_and_keeps_them():
    x, lengths = make_batch()
    layer = SequenceBatchNorm()
    layer.build(x.shape)
    layer.moving_mean.assign([1, 2, 3])
    layer.moving_variance.assign([4, 9, 16])
    before = averages(layer)
    layer.trainable = False
    y = layer(x, lengths, training=True)
    np.testing.assert_array_equal(y, layer(x, lengths))
    np.testing.assert_array_equal(averages(layer), before)


def test_saves_and_loads():
    layer = SequenceBatchNorm(momentum=0.5, epsilon=0.1, synchronized=False, name="bn")
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert again.get_config() == layer.get_config()


def test_a_momentum_of_one_is_an_error():
    with pytest.raises(ValueError, match=r"^momentum must lie in \[0, 1\). Received: 1$"):
        SequenceBatchNorm(momentum=1)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_rounds_neither_statistics_nor_parameters(policy):
    x, lengths = make_batch(padding=0.0)
    half = tf.cast(x, policy.removeprefix("mixed_"))
    layer, exact = SequenceBatchNorm(dtype=policy), SequenceBatchNorm()
    for each in (layer, exact):
        each.build(x.shape)
        each.gamma.assign([1.001, 1.0, 1.0])  # in bfloat16 it would be 1
    y = layer(half, lengths, training=True)
    exact(tf.cast(half, tf.float32), lengths, training=True)
    assert y.dtype == half.dtype
    np.testing.assert_allclose(averages(layer), averages(exact), rtol=1e-6)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.cast(layer(half, lengths, training=True), tf.float32) ** 2)
    assert tape.gradient(loss, layer.gamma.value).dtype == tf.float32
