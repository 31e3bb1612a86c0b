"""Samples to log spectrograms: the one definition that training, evaluation and exports share."""

import dataclasses
import math

import tensorflow as tf

POWER_NORMALIZATIONS = ("utterance", "none")


@dataclasses.dataclass(frozen=True)
class FeatureConfig:
    """How a waveform becomes a log spectrogram.

    Source: Deep Speech 2, section 3: spectrograms of power-normalised audio, 20 ms windows.

    Attributes:
      sample_rate_hz: rate of the samples that the model hears.
      window_ms: length of the Hann window, which is also the length of the transform.
      step_ms: distance between the starts of two windows.
      power_normalization: "utterance" scales each utterance to a mean power of 1 (a bidirectional
        model hears the whole utterance anyway); "none" leaves the level alone.
      power_floor: added to the mean power before the division, so that silence stays silent;
        1e-8 is -80 dB below full scale.
      log_floor: added to the power of each bin before the logarithm. White noise of mean power 1
        has a power of 1 in each bin, so 1e-4 hides what lies 40 dB below the utterance's mean.
    """

    sample_rate_hz: int = 16000
    window_ms: float = 20.0
    step_ms: float = 10.0
    power_normalization: str = "utterance"
    power_floor: float = 1e-8
    log_floor: float = 1e-4

    def __post_init__(self) -> None:
        """Rejects values that no waveform can be analysed with."""
        if self.power_normalization not in POWER_NORMALIZATIONS:
            raise ValueError(
                f"power_normalization must be one of {POWER_NORMALIZATIONS}. "
                f"Received: {self.power_normalization!r}"
            )
        for name in ("sample_rate_hz", "window_ms", "step_ms", "power_floor", "log_floor"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be > 0. Received: {getattr(self, name)}")
        if self.step < 1 or self.window < self.step:
            raise ValueError(
                "window_ms must be >= step_ms, and step_ms at least one sample. "
                f"Received: window_ms={self.window_ms}, step_ms={self.step_ms}"
            )

    @property
    def window(self) -> int:
        """Window length in samples."""
        return round(self.sample_rate_hz * self.window_ms / 1000)

    @property
    def step(self) -> int:
        """Distance between two windows in samples."""
        return round(self.sample_rate_hz * self.step_ms / 1000)

    @property
    def num_bins(self) -> int:
        """F, the number of frequency bins: 161 at 16 kHz."""
        return self.window // 2 + 1

    def num_frames(self, num_samples: int) -> int:
        """Returns T for S samples: only whole windows count."""
        return max(0, 1 + (num_samples - self.window) // self.step)


def log_spectrogram(
    config: FeatureConfig, waveforms: tf.Tensor, lengths: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the log power spectrograms of a batch of waveforms.

    Args:
      config: the analysis.
      waveforms: [B, S] float32 in [-1, 1], at `config.sample_rate_hz`. What lies past an
        utterance's length is ignored, whatever it holds.
      lengths: [B] int32, samples of each utterance.

    Returns:
      features [B, T, F] float32, zero past each length, and feature lengths [B] int32, where
      T = 1 + (S - window) // step, or 0 when S is shorter than a window.
    """
    valid = tf.sequence_mask(lengths, tf.shape(waveforms)[1])
    waveforms = tf.where(valid, waveforms, 0.0)
    if config.power_normalization == "utterance":
        energy = tf.reduce_sum(tf.square(waveforms), axis=1, keepdims=True)
        num_samples = tf.cast(tf.maximum(lengths, 1), tf.float32)[:, tf.newaxis]
        waveforms *= tf.math.rsqrt(energy / num_samples + config.power_floor)
    frames = tf.signal.frame(waveforms, config.window, config.step)
    window = tf.signal.hann_window(config.window)
    spectrum = tf.signal.rfft(frames * window, [config.window])
    window_energy = 0.375 * config.window  # the sum of a Hann window's squares
    power = (tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))) / window_energy
    features = tf.math.log(power + config.log_floor)
    frame_lengths = tf.maximum(0, 1 + (lengths - config.window) // config.step)
    mask = tf.sequence_mask(frame_lengths, tf.shape(features)[1])[:, :, tf.newaxis]
    return tf.where(mask, features, 0.0), frame_lengths


def silence_value(config: FeatureConfig) -> float:
    """Returns the feature of a bin without any power."""
    return math.log(config.log_floor)
