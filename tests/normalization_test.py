import numpy as np
import pytest
import tensorflow as tf

from ds2_tf import normalization
from ds2_tf.errors import UserError


def test_statistics_are_those_of_all_valid_frames():
    generator = np.random.default_rng(0)
    lengths = [3, 0, 7]
    features = generator.normal(4, 3, (3, 9, 5)).astype(np.float32)
    features[0, 3:] = features[1] = features[2, 7:] = np.nan
    frames = np.concatenate([features[i, :n] for i, n in enumerate(lengths)])
    found = normalization.measure([(features[:1], lengths[:1]), (features[1:], lengths[1:])])
    np.testing.assert_allclose(found.mean, frames.mean(0), rtol=1e-5)
    np.testing.assert_allclose(found.standard_deviation, frames.std(0), rtol=1e-5)
    normalised = found(tf.constant(features), tf.constant(lengths)).numpy()
    assert not normalised[0, 3:].any()
    valid = np.concatenate([normalised[i, :n] for i, n in enumerate(lengths)])
    np.testing.assert_allclose([valid.mean(), valid.std()], [0, 1], atol=1e-5)


def test_bins_that_hardly_vary_are_not_blown_up():
    features = np.full((1, 10, 2), -9.0, np.float32)
    features[0, 0, 1] += 1e-4
    found = normalization.measure([(features, [10])])
    np.testing.assert_array_equal(found.standard_deviation, np.float32([0.1, 0.1]))


def test_nothing_to_measure_is_an_error():
    with pytest.raises(ValueError, match="at least one frame. Received: none"):
        normalization.measure([(np.zeros((1, 4, 2), np.float32), [0])])


def test_saved_statistics_come_back(tmp_path):
    path = tmp_path / "normalization.npz"
    saved = normalization.Normalization(np.float32([1, 2]), np.float32([3, 4]), 0.07)
    saved.save(path)
    loaded = normalization.load(path)
    np.testing.assert_array_equal(loaded.mean, saved.mean)
    np.testing.assert_array_equal(loaded.standard_deviation, saved.standard_deviation)
    assert loaded.power == 0.07


def test_adapted_statistics_follow_the_stream():
    generator = np.random.default_rng(1)
    trained = normalization.Normalization(np.float32([1, -2]), np.float32([3, 0.5]))
    frames = generator.normal([5, 1], [1, 2], (400, 2)).astype(np.float32)
    found, state = trained.adapt(
        tf.constant(frames[np.newaxis]), tf.constant([400]), trained.start(1), 10, 100
    )
    mean = trained.mean.astype(float)
    squares = trained.standard_deviation.astype(float) ** 2 + mean**2
    for t, (frame, normalised) in enumerate(zip(frames, found[0].numpy(), strict=True), start=1):
        mean += (frame - mean) / min(t + 10, 100)
        squares += (frame**2 - squares) / min(t + 10, 100)
        expected = (frame - mean) / np.sqrt(squares - mean**2)
        np.testing.assert_allclose(normalised, expected, rtol=1e-4, atol=1e-4)
    settled = found[0, 200:].numpy()
    np.testing.assert_allclose(settled.mean(0), [0, 0], atol=0.1)
    np.testing.assert_allclose(settled.std(0), [1, 1], atol=0.2)
    assert state["mean"].shape == (1, 4)


def test_power_is_that_of_all_samples():
    first = (np.float32([[1, -1, 0], [2, 0, 0]]), np.array([2, 1]))
    second = (np.float32([[3]]), np.array([1]))
    assert normalization.mean_power([first, second]) == (1 + 1 + 4 + 9) / 4
    assert normalization.mean_power([]) == 0


@pytest.mark.parametrize("content", [None, b"", b"no zip"])
def test_a_damaged_file_is_named(tmp_path, content):
    path = tmp_path / "normalization.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"normalization.npz: not the statistics.*own folder"):
        normalization.load(path)
