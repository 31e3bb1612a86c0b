"""Changes of training audio, each a function of the run's seed, the epoch and the utterance."""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import scipy.fft
import soxr

from ds2_tf import audio, manifest
from ds2_tf.manifest import Utterance

_SPEED_STREAM, _CHANNEL_STREAM, _NOISE_STREAM, _LEVEL_STREAM = range(4)
_CHANNEL_BANDS = 8
_SLOPES = (0.0, 2.0)  # of made noise: from white to brown


@dataclasses.dataclass(frozen=True)
class AugmentConfig:
    """How training audio is varied.

    Attributes:
      speed: lowest and highest factor by which an utterance is played faster, pitch and formants
        included; (1, 1) for none.
      channel_db: standard deviation of the gains of a random smooth frequency response, as of
        another microphone; 0 for none.
      noise_share: share of the utterances that get noise (0.4 in Deep Speech 2, section 5.3).
      snr_db: lowest and highest ratio of the utterance's power to the noise's.
      noise_manifest: recordings to take the noise from; without any it is made, with a random
        spectral slope between white and brown.
      gain_db: lowest and highest gain of the whole recording, for models whose features depend on
        the level: a running power takes a while to find it.
    """

    speed: tuple[float, float] = (1.0, 1.0)
    channel_db: float = 0.0
    noise_share: float = 0.0
    snr_db: tuple[float, float] = (5.0, 30.0)
    noise_manifest: str = ""
    gain_db: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        """Rejects ranges that are empty."""
        if not 0 < self.speed[0] <= self.speed[1]:
            raise ValueError(f"speed must be two rising factors above 0. Received: {self.speed}")
        if self.channel_db < 0:
            raise ValueError(f"channel_db must be >= 0. Received: {self.channel_db}")
        if not 0 <= self.noise_share <= 1:
            raise ValueError(f"noise_share must lie in [0, 1]. Received: {self.noise_share}")
        if not self.snr_db[0] <= self.snr_db[1]:
            raise ValueError(f"snr_db must be two rising levels. Received: {self.snr_db}")
        if not self.gain_db[0] <= self.gain_db[1]:
            raise ValueError(f"gain_db must be two rising levels. Received: {self.gain_db}")


class Augmenter:
    """Varies the utterances of one epoch, the same way whenever it is asked."""

    def __init__(self, config: AugmentConfig, sample_rate_hz: int, seed: int, epoch: int) -> None:
        self._config = config
        self._sample_rate_hz = sample_rate_hz
        self._seed = seed
        self._epoch = epoch

    def speed(self, index: int) -> float:
        """Returns the speed factor of an utterance."""
        low, high = self._config.speed
        if low == high:
            return low
        return float(self._generator(index, _SPEED_STREAM).uniform(low, high))

    def change_speed(self, samples: np.ndarray, speed: float) -> np.ndarray:
        """Returns [S / speed] float32: the samples [S] played faster."""
        if speed == 1 or len(samples) == 0:
            return samples
        return soxr.resample(samples, self._sample_rate_hz * speed, self._sample_rate_hz)

    def change_channel(self, samples: np.ndarray, index: int) -> np.ndarray:
        """Returns [S] float32: the samples [S] through a random frequency response."""
        if self._config.channel_db == 0 or len(samples) == 0:
            return samples
        generator = self._generator(index, _CHANNEL_STREAM)
        gains_db = generator.normal(0, self._config.channel_db, _CHANNEL_BANDS)
        size = scipy.fft.next_fast_len(len(samples), real=True)
        spectrum = scipy.fft.rfft(samples, size)
        bands = np.linspace(0, 1, _CHANNEL_BANDS)
        response_db = np.interp(np.linspace(0, 1, len(spectrum)), bands, gains_db)
        response = (10 ** (response_db / 20)).astype(np.float32)
        return scipy.fft.irfft(spectrum * response, size)[: len(samples)]

    def add_noise(self, samples: np.ndarray, index: int) -> np.ndarray:
        """Returns [S] float32: the samples [S], some utterances with noise."""
        generator = self._generator(index, _NOISE_STREAM)
        if generator.random() >= self._config.noise_share or len(samples) == 0:
            return samples
        snr_db = generator.uniform(*self._config.snr_db)
        noise = self._noise(len(samples), generator)
        noise_power, power = np.mean(np.square(noise)), np.mean(np.square(samples))
        if noise_power == 0:
            return samples
        return samples + noise * np.float32(np.sqrt(power / noise_power * 10 ** (-snr_db / 10)))

    def change_level(self, samples: np.ndarray, index: int) -> np.ndarray:
        """Returns [S] float32: the samples [S], louder or quieter."""
        low, high = self._config.gain_db
        gain_db = low if low == high else self._generator(index, _LEVEL_STREAM).uniform(low, high)
        return samples if gain_db == 0 else samples * np.float32(10 ** (gain_db / 20))

    def _noise(self, num_samples: int, generator: np.random.Generator) -> np.ndarray:
        if not self._config.noise_manifest:
            slope = generator.uniform(*_SLOPES)
            return coloured_noise(num_samples, slope, self._sample_rate_hz, generator)
        recordings = _noise_recordings(self._config.noise_manifest)
        chosen = recordings[int(generator.integers(len(recordings)))]
        noise = _load_noise(chosen, self._sample_rate_hz)
        start = generator.integers(len(noise))
        return np.take(noise, np.arange(start, start + num_samples), mode="wrap")

    def _generator(self, index: int, stream: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, self._epoch, index, stream])


def coloured_noise(
    num_samples: int, slope: float, sample_rate_hz: int, generator: np.random.Generator
) -> np.ndarray:
    """Returns [num_samples] float32 of noise whose power falls as 1 / frequency ** slope.

    Below 100 Hz it is flat: otherwise most of its power would lie where there is no speech.
    """
    spectrum = np.fft.rfft(generator.standard_normal(num_samples))
    frequencies = np.maximum(np.fft.rfftfreq(num_samples, 1 / sample_rate_hz), 100.0)
    return np.fft.irfft(spectrum * frequencies ** (-slope / 2), num_samples).astype(np.float32)


@functools.lru_cache(maxsize=4)
def _noise_recordings(noise_manifest: str) -> Sequence[Utterance]:
    return manifest.read(noise_manifest)


@functools.lru_cache(maxsize=256)
def _load_noise(recording: Utterance, sample_rate_hz: int) -> np.ndarray:
    samples = audio.load_utterance(recording, sample_rate_hz)
    return samples if len(samples) else np.zeros(1, np.float32)
