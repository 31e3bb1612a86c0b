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
    saved = normalization.Normalization(np.float32([1, 2]), np.float32([3, 4]))
    saved.save(path)
    loaded = normalization.load(path)
    np.testing.assert_array_equal(loaded.mean, saved.mean)
    np.testing.assert_array_equal(loaded.standard_deviation, saved.standard_deviation)


@pytest.mark.parametrize("content", [None, b"", b"no zip"])
def test_a_damaged_file_is_named(tmp_path, content):
    path = tmp_path / "normalization.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"normalization.npz: not the statistics.*own folder"):
        normalization.load(path)
