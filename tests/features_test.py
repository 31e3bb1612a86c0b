import numpy as np
import pytest
import tensorflow as tf

from ds2_tf import features as features_lib
from ds2_tf.features import FeatureConfig, log_spectrogram

POWER = 0.03


def reference(samples: np.ndarray, config: FeatureConfig) -> np.ndarray:
    """The definition, one window after another, in float64."""
    mean_power = POWER
    samples = samples.astype(np.float64)
    if config.power_normalization == "utterance":
        samples = samples / np.sqrt(np.mean(samples**2) + config.power_floor)
    n = np.arange(config.window)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * n / config.window)
    rows = []
    for t in range(config.num_frames(len(samples))):
        frame = samples[t * config.step : t * config.step + config.window]
        if config.power_normalization == "running":
            memory = min(t + 1 + config.power_prior_frames, config.power_memory_frames)
            mean_power += (np.mean(frame[-config.step :] ** 2) - mean_power) / memory
            frame = frame / np.sqrt(mean_power + config.power_floor)
        frame = frame * hann
        power = np.abs(np.fft.rfft(frame)) ** 2 / np.sum(hann**2)
        rows.append(np.log(power + config.log_floor))
    return np.array(rows).reshape(-1, config.num_bins)


@pytest.mark.parametrize("rate", [8000, 16000])
@pytest.mark.parametrize("power_normalization", ["utterance", "running", "none"])
def test_equals_the_definition(rate, power_normalization):
    config = FeatureConfig(
        rate,
        power_normalization=power_normalization,
        power_prior_frames=5,
        power_memory_frames=20,
    )
    samples = np.random.default_rng(0).normal(0, 0.1, 5000).astype(np.float32)
    features, lengths = log_spectrogram(config, samples[None], tf.constant([5000]), POWER)
    np.testing.assert_allclose(features[0], reference(samples, config), atol=2e-4)
    assert lengths.numpy().tolist() == [config.num_frames(5000)]


def test_16_khz_gives_161_bins_and_100_frames_a_second():
    config = FeatureConfig()
    assert (config.window, config.step, config.num_bins) == (320, 160, 161)
    assert [config.num_frames(s) for s in (0, 319, 320, 479, 480, 16000)] == [0, 0, 1, 1, 2, 99]


def test_neither_padding_nor_neighbours_change_an_utterance():
    config = FeatureConfig()
    generator = np.random.default_rng(1)
    lengths = [0, 100, 320, 1777, 4000]
    batch = np.full((5, 6000), np.nan, np.float32)
    for row, length in zip(batch, lengths, strict=True):
        row[:length] = generator.normal(0, 0.1, length)
    together, frames = log_spectrogram(config, batch, tf.constant(lengths))
    for row, length, whole, count in zip(batch, lengths, together.numpy(), frames, strict=True):
        alone, _ = log_spectrogram(config, row[None, :length], tf.constant([length]))
        np.testing.assert_allclose(whole[:count], alone[0], rtol=1e-5, atol=1e-5)
        assert not whole[count:].any()


def test_level_does_not_matter_under_power_normalization():
    config = FeatureConfig()
    samples = np.random.default_rng(2).normal(0, 0.3, (1, 3200)).astype(np.float32)
    loud, _ = log_spectrogram(config, samples, tf.constant([3200]))
    quiet, _ = log_spectrogram(config, samples / 10, tf.constant([3200]))
    np.testing.assert_allclose(loud, quiet, atol=1e-4)


def test_running_power_is_the_causal_form_of_the_utterances():
    config = FeatureConfig(adaptation_memory_frames=7)
    assert config.causal == FeatureConfig(power_normalization="running", adaptation_memory_frames=7)
    for causal in ("running", "none"):
        config = FeatureConfig(power_normalization=causal)
        assert config.causal is config
    with pytest.raises(ValueError, match="cannot be scaled by the power of the whole utterance"):
        features_lib.start(FeatureConfig(), 1)


def test_running_power_makes_loud_and_quiet_alike_after_a_while():
    config = FeatureConfig(power_normalization="running", power_prior_frames=10)
    samples = np.random.default_rng(2).normal(0, 0.3, (1, 160 * 1000)).astype(np.float32)
    loud, _ = log_spectrogram(config, samples, tf.constant([samples.size]))
    quiet, _ = log_spectrogram(config, samples / 10, tf.constant([samples.size]))
    difference = np.abs(loud - quiet)[0].max(-1)
    assert difference[0] > 2
    assert difference[-1] < 0.2


def test_adaptation_is_told_in_seconds():
    assert FeatureConfig(sample_rate_hz=8000).adapted(2.5).adaptation_memory_frames == 250
    assert FeatureConfig().adapted(0).adaptation_memory_frames == 0


def test_silence_is_the_log_of_the_floor():
    features, _ = log_spectrogram(
        FeatureConfig(), np.zeros((1, 640), np.float32), tf.constant([640])
    )
    np.testing.assert_allclose(features, np.log(1e-4), rtol=1e-6)


def test_wrong_settings_are_named():
    with pytest.raises(ValueError, match=r"Received: 'loud'"):
        FeatureConfig(power_normalization="loud")
    for name in ("power_prior_frames", "adaptation_prior_frames", "adaptation_memory_frames"):
        with pytest.raises(ValueError, match=f"{name} must be >= 0. Received: -1"):
            FeatureConfig(**{name: -1})
    with pytest.raises(ValueError, match="power_memory_frames must be >= 1. Received: 0"):
        FeatureConfig(power_memory_frames=0)
    with pytest.raises(ValueError, match=r"log_floor must be > 0. Received: 0"):
        FeatureConfig(log_floor=0)
    with pytest.raises(ValueError, match=r"window_ms must be >= step_ms.*Received: window_ms=5"):
        FeatureConfig(window_ms=5)
