import re

import numpy as np
import pytest
import soundfile

from ds2_tf import manifest
from ds2_tf.audio import AudioError
from ds2_tf.augment import AugmentConfig, Augmenter, coloured_noise
from ds2_tf.manifest import Utterance

RATE = 8000
EVERYTHING = AugmentConfig(speed=(0.8, 1.25), channel_db=6.0, noise_share=0.6, snr_db=(5.0, 30.0))


def white(num_samples=RATE, seed=0):
    return np.random.default_rng(seed).normal(0, 0.1, num_samples).astype(np.float32)


def vary(config, samples, seed=0, epoch=0, index=0):
    augmenter = Augmenter(config, RATE, seed, epoch)
    samples = augmenter.change_speed(samples, augmenter.speed(index))
    samples = augmenter.add_noise(augmenter.change_channel(samples, index), index)
    return augmenter.change_level(samples, index)


def snr_db(clean, noisy):
    clean, noise = clean.astype(np.float64), noisy.astype(np.float64) - clean
    return 10 * np.log10(np.mean(clean**2) / np.mean(noise**2))


def test_the_same_utterance_of_the_same_epoch_is_the_same_bit_for_bit():
    for index in range(10):
        first = vary(EVERYTHING, white(), 3, 5, index)
        assert first.dtype == np.float32
        assert first.tobytes() == vary(EVERYTHING, white(), 3, 5, index).tobytes()


def test_an_utterance_does_not_depend_on_those_before_it():
    augmenter = Augmenter(EVERYTHING, RATE, 3, 5)
    for index in (7, 2, 9):
        augmenter.add_noise(augmenter.change_channel(white(), index), index)
    fresh = Augmenter(EVERYTHING, RATE, 3, 5)
    assert augmenter.speed(4) == fresh.speed(4)
    np.testing.assert_array_equal(augmenter.add_noise(white(), 4), fresh.add_noise(white(), 4))


@pytest.mark.parametrize("other", [(4, 5, 6), (3, 6, 6), (3, 5, 7), (5, 3, 6)])
@pytest.mark.parametrize(
    "config",
    [
        AugmentConfig(speed=(0.8, 1.25)),
        AugmentConfig(channel_db=6.0),
        AugmentConfig(noise_share=1.0, snr_db=(10.0, 10.0)),
        AugmentConfig(gain_db=(-20.0, 10.0)),
    ],
    ids=["speed", "channel", "noise", "level"],
)
def test_another_seed_epoch_or_utterance_is_varied_otherwise(config, other):
    first, second = vary(config, white(), 3, 5, 6), vary(config, white(), *other)
    assert not np.array_equal(first, second)


def test_speed_channel_and_noise_are_independent():
    """Turning one on leaves the others as they are."""
    channel = AugmentConfig(channel_db=6.0)
    both = AugmentConfig(channel_db=6.0, noise_share=1.0)
    augmenters = [Augmenter(config, RATE, 0, 0) for config in (channel, both)]
    changed = [augmenter.change_channel(white(), 5) for augmenter in augmenters]
    np.testing.assert_array_equal(*changed)


def test_noise_does_not_prefer_fast_or_slow_utterances():
    augmenter = Augmenter(AugmentConfig(speed=(0.8, 1.2), noise_share=0.5), RATE, 0, 0)
    speeds = np.array([augmenter.speed(index) for index in range(500)])
    samples = white(100)
    noisy = [not np.array_equal(augmenter.add_noise(samples, i), samples) for i in range(500)]
    assert abs(np.corrcoef(speeds, noisy)[0, 1]) < 0.15


def test_without_settings_nothing_changes():
    samples = white()
    np.testing.assert_array_equal(vary(AugmentConfig(), samples), samples)


def test_speeds_fill_their_range_evenly():
    augmenter = Augmenter(AugmentConfig(speed=(0.8, 1.2)), RATE, 0, 0)
    speeds = [augmenter.speed(index) for index in range(1000)]
    counts, _ = np.histogram(speeds, 4, (0.8, 1.2))
    assert counts.sum() == 1000
    assert counts.min() > 200


@pytest.mark.parametrize("speed", [0.8, 0.93, 1.07, 1.25])
def test_speed_changes_length_and_pitch_by_the_factor(speed):
    time = np.arange(2 * RATE) / RATE
    tone = np.sin(2 * np.pi * 1000 * time).astype(np.float32)
    faster = Augmenter(AugmentConfig(), RATE, 0, 0).change_speed(tone, speed)
    assert abs(len(faster) - len(tone) / speed) <= 1
    middle = faster[1000:-1000]
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle)), 1 << 18))
    peak_hz = np.argmax(spectrum) * RATE / (1 << 18)
    assert peak_hz == pytest.approx(1000 * speed, abs=0.5)
    assert np.sqrt(2 * np.mean(middle**2)) == pytest.approx(1, abs=0.01)


def test_speed_leaves_no_alias():
    """3.6 kHz played 1.25 times faster would lie at 4.5 kHz, above half the rate."""
    tone = np.sin(2 * np.pi * 3600 * np.arange(RATE) / RATE).astype(np.float32)
    faster = Augmenter(AugmentConfig(), RATE, 0, 0).change_speed(tone, 1.25)
    assert np.abs(faster[500:-500]).max() < 1e-3


@pytest.mark.parametrize("level", [1e-3, 0.1, 0.9])
@pytest.mark.parametrize("wanted_db", [-5.0, 5.0, 30.0])
def test_noise_has_the_wanted_level(wanted_db, level):
    config = AugmentConfig(noise_share=1.0, snr_db=(wanted_db, wanted_db))
    augmenter = Augmenter(config, RATE, 0, 0)
    for index in range(5):
        samples = level * white(seed=index)
        noisy = augmenter.add_noise(samples, index)
        assert noisy.dtype == np.float32
        assert snr_db(samples, noisy) == pytest.approx(wanted_db, abs=0.1)


def test_the_stated_share_gets_noise_of_levels_in_the_range():
    config = AugmentConfig(noise_share=0.4, snr_db=(5.0, 20.0))
    augmenter = Augmenter(config, RATE, 0, 0)
    samples = white(400)
    noisy = [augmenter.add_noise(samples, index) for index in range(1000)]
    levels = [snr_db(samples, n) for n in noisy if not np.array_equal(n, samples)]
    assert 350 < len(levels) < 450
    counts, _ = np.histogram(levels, 3, (4.9, 20.1))
    assert counts.sum() == len(levels)
    assert counts.min() > len(levels) / 5


@pytest.mark.parametrize("slope", [0.0, 1.0, 2.0])
def test_noise_falls_with_its_slope(slope):
    noise = coloured_noise(1 << 17, slope, 16000, np.random.default_rng(0))
    assert noise.dtype == np.float32
    power = np.abs(np.fft.rfft(noise.astype(np.float64))) ** 2
    edges = (1 << np.arange(10, 17)).tolist()
    octaves = [power[low : 2 * low].mean() for low in edges[:-1]]
    falls = np.diff(np.log2(octaves))
    np.testing.assert_allclose(falls, -slope, atol=0.25)


def test_made_noise_has_many_colours():
    augmenter = Augmenter(AugmentConfig(noise_share=1.0, snr_db=(0.0, 0.0)), RATE, 0, 0)
    samples = white(RATE)
    high_shares = []
    for index in range(100):
        power = np.abs(np.fft.rfft(augmenter.add_noise(samples, index) - samples)) ** 2
        high_shares.append(power[len(power) // 2 :].sum() / power.sum())
    assert max(high_shares) > 0.4
    assert min(high_shares) < 0.05


def test_a_channel_is_a_smooth_linear_response():
    num_samples = 1 << 15
    augmenter = Augmenter(AugmentConfig(channel_db=6.0), RATE, 0, 0)
    samples = white(num_samples)
    changed = augmenter.change_channel(samples, 3)
    assert changed.dtype == np.float32
    assert len(changed) == num_samples
    response = np.fft.rfft(changed) / np.fft.rfft(samples)
    gains_db = 20 * np.log10(np.abs(response))
    assert np.ptp(gains_db) > 3
    # No step between neighbouring bins, and no more than some dB in a twentieth of the range.
    twentieth = len(gains_db) // 20
    assert np.abs(np.diff(gains_db)).max() < 0.05
    assert np.abs(gains_db[twentieth:] - gains_db[:-twentieth]).max() < 12
    twice = augmenter.change_channel(2 * samples, 3)
    np.testing.assert_allclose(twice, 2 * changed, atol=1e-5)


def test_channel_gains_have_the_wanted_deviation():
    augmenter = Augmenter(AugmentConfig(channel_db=5.0), RATE, 0, 0)
    click = np.zeros(512, np.float32)
    click[256] = 1
    ends_db = []
    for index in range(600):
        response = np.abs(np.fft.rfft(augmenter.change_channel(click, index)))
        ends_db += [20 * np.log10(response[0]), 20 * np.log10(response[-1])]
    assert np.std(ends_db) == pytest.approx(5.0, rel=0.1)
    assert np.mean(ends_db) == pytest.approx(0.0, abs=0.6)


def test_gains_lie_in_their_range_and_all_of_it():
    augmenter = Augmenter(AugmentConfig(gain_db=(-20.0, 10.0)), RATE, 0, 0)
    samples = white(100)
    gains_db = []
    for index in range(300):
        changed = augmenter.change_level(samples, index)
        assert changed.dtype == np.float32
        gain = changed[0] / samples[0]
        np.testing.assert_allclose(changed, gain * samples, rtol=1e-5)
        gains_db.append(20 * np.log10(gain))
    assert -20 <= min(gains_db) < -19
    assert 9 < max(gains_db) <= 10
    fixed = Augmenter(AugmentConfig(gain_db=(6.0, 6.0)), RATE, 0, 0).change_level(samples, 1)
    np.testing.assert_allclose(fixed, samples * 10**0.3, rtol=1e-6)


@pytest.mark.parametrize("num_samples", [0, 1, 2, 79])
def test_very_short_and_silent_utterances_survive(num_samples):
    config = AugmentConfig(speed=(0.8, 1.25), channel_db=6.0, noise_share=1.0)
    for samples in (white(num_samples), np.zeros(num_samples, np.float32)):
        for index in range(5):
            changed = vary(config, samples, index=index)
            assert changed.dtype == np.float32
            assert np.isfinite(changed).all()
            assert abs(len(changed) - num_samples) <= 0.25 * num_samples + 1


def write_noise(folder):
    """Two recordings: the constant 0.5 for a tenth of a second, and a tone in two parts."""
    time = np.arange(2000) / 16000
    soundfile.write(folder / "constant.wav", np.full(800, 0.5), RATE, "FLOAT")
    soundfile.write(folder / "tone.wav", np.sin(2 * np.pi * 440 * time), 16000, "FLOAT")
    path = folder / "noise.jsonl"
    tone = str(folder / "tone.wav")
    manifest.write(
        path,
        [
            Utterance((str(folder / "constant.wav"),), 0.1, ""),
            Utterance((tone, tone), 0.25, ""),
        ],
    )
    return str(path)


def test_recorded_noise_comes_from_the_manifest(tmp_path):
    config = AugmentConfig(
        noise_share=1.0, snr_db=(10.0, 10.0), noise_manifest=write_noise(tmp_path)
    )
    augmenter = Augmenter(config, RATE, 0, 0)
    samples = white(4000)
    num_constant = 0
    for index in range(40):
        noisy = augmenter.add_noise(samples, index)
        assert snr_db(samples, noisy) == pytest.approx(10, abs=0.1)
        noise = noisy - samples
        if np.ptp(noise) < 1e-6:
            num_constant += 1
            continue
        spectrum = np.abs(np.fft.rfft(noise * np.hanning(len(noise))))
        assert np.argmax(spectrum) * RATE / len(noise) == pytest.approx(440, abs=3)
    assert 10 <= num_constant <= 30


def test_recorded_noise_starts_anywhere_and_repeats_to_the_wanted_length(tmp_path):
    ramp = np.linspace(0.1, 0.9, 1000)
    soundfile.write(tmp_path / "ramp.wav", ramp, RATE, "FLOAT")
    path = tmp_path / "noise.jsonl"
    manifest.write(path, [Utterance((str(tmp_path / "ramp.wav"),), 0.125, "")])
    config = AugmentConfig(noise_share=1.0, snr_db=(0.0, 0.0), noise_manifest=str(path))
    augmenter = Augmenter(config, RATE, 0, 0)
    samples = np.full(2500, 0.25, np.float32)
    starts = []
    for index in range(20):
        noise = augmenter.add_noise(samples, index) - samples
        np.testing.assert_allclose(noise[1000:2000], noise[:1000], atol=1e-6)
        start = (1000 - int(np.argmin(noise[:1000]))) % 1000
        scale = noise[:1000].max() / 0.9
        np.testing.assert_allclose(noise[:1000], scale * np.roll(ramp, -start), atol=1e-6)
        starts.append(start)
    assert len(set(starts)) > 15


def test_silent_recorded_noise_adds_nothing(tmp_path):
    soundfile.write(tmp_path / "silence.wav", np.zeros(100), RATE)
    path = tmp_path / "noise.jsonl"
    manifest.write(path, [Utterance((str(tmp_path / "silence.wav"),), 0.0125, "")])
    config = AugmentConfig(noise_share=1.0, noise_manifest=str(path))
    np.testing.assert_array_equal(vary(config, white()), white())


def test_missing_recorded_noise_is_named(tmp_path):
    path = tmp_path / "noise.jsonl"
    manifest.write(path, [Utterance((str(tmp_path / "gone.wav"),), 1.0, "")])
    config = AugmentConfig(noise_share=1.0, noise_manifest=str(path))
    with pytest.raises(AudioError, match=r"noise.jsonl:1: .*gone.wav: no such file; check the"):
        vary(config, white())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"speed": (0.0, 1.0)}, "speed must be two rising factors above 0. Received: (0.0, 1.0)"),
        ({"speed": (1.1, 0.9)}, "speed must be two rising factors above 0. Received: (1.1, 0.9)"),
        ({"channel_db": -1.0}, "channel_db must be >= 0. Received: -1.0"),
        ({"noise_share": 1.5}, "noise_share must lie in [0, 1]. Received: 1.5"),
        ({"snr_db": (9.0, 3.0)}, "snr_db must be two rising levels. Received: (9.0, 3.0)"),
        ({"gain_db": (1.0, 0.0)}, "gain_db must be two rising levels. Received: (1.0, 0.0)"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        AugmentConfig(**settings)
