import numpy as np
import pytest
import tensorflow as tf

from ds2_tf import features
from ds2_tf.frontend import Frontend
from ds2_tf.normalization import Normalization

BINS = 81
STATISTICS = Normalization(
    np.linspace(-6, -3, BINS, dtype=np.float32), np.full(BINS, 2, np.float32), 0.02
)


@pytest.mark.parametrize("adaptation_memory_frames", [0, 50])
@pytest.mark.parametrize("power_normalization", ["running", "none"])
def test_pieces_give_the_features_of_the_whole(power_normalization, adaptation_memory_frames):
    config = features.FeatureConfig(
        sample_rate_hz=8000,
        power_normalization=power_normalization,
        adaptation_memory_frames=adaptation_memory_frames,
        adaptation_prior_frames=10,
    )
    frontend = Frontend(config, STATISTICS)
    lengths = [5000, 0, 170, 3000]
    waveforms = np.random.default_rng(0).normal(0, 0.1, (4, 5000)).astype(np.float32)
    expected, counts = frontend(tf.constant(waveforms), tf.constant(lengths))
    state = frontend.start(4)
    found = [[] for _ in lengths]
    for begin, end in ((0, 1), (1, 160), (160, 160), (160, 2000), (2000, 5000)):
        taken = np.clip(np.array(lengths) - begin, 0, end - begin).astype(np.int32)
        piece, piece_counts, state = frontend.step(
            tf.constant(waveforms[:, begin:end]), tf.constant(taken), state
        )
        for row, count in enumerate(piece_counts):
            found[row].append(piece[row, :count])
    for row, count in enumerate(counts):
        np.testing.assert_allclose(
            np.concatenate(found[row]), expected[row, :count], rtol=1e-5, atol=1e-4
        )


def test_without_adaptation_the_training_sets_statistics_are_taken():
    config = features.FeatureConfig(sample_rate_hz=8000, power_normalization="none")
    waveforms = np.random.default_rng(0).normal(0, 0.1, (1, 800)).astype(np.float32)
    raw, lengths = features.log_spectrogram(config, waveforms, tf.constant([800]))
    normalized, same = Frontend(config, STATISTICS)(tf.constant(waveforms), tf.constant([800]))
    np.testing.assert_allclose(normalized, (raw - STATISTICS.mean) / 2, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(same, lengths)
