"""Samples to log spectrograms: the one definition that training, evaluation and exports share."""

import dataclasses
import math

import tensorflow as tf

from ds2_tf.layers.lengths import mask_frames
from ds2_tf.layers.sequence_layer import State
from ds2_tf.layers.sliding_window import SlidingWindow
from ds2_tf.ops import running_mean
from ds2_tf.ops.spectrum import power_spectrum

POWER_NORMALIZATIONS = ("utterance", "running", "none")
TYPICAL_POWER = 0.01  # of speech, -20 dB below full scale: where no training set was measured


@dataclasses.dataclass(frozen=True)
class FeatureConfig:
    """How a waveform becomes a log spectrogram.

    Source: Deep Speech 2, section 3: spectrograms of power-normalised audio, 20 ms windows.

    Attributes:
      sample_rate_hz: rate of the samples that the model hears.
      window_ms: length of the Hann window, which is also the length of the transform.
      step_ms: distance between the starts of two windows.
      power_normalization: "utterance" scales each utterance to a mean power of 1 (a bidirectional
        model hears the whole utterance anyway); "running" is its causal form, for streams: each
        window is scaled by the power of what was heard up to it, which begins with the training
        set's; "none" leaves the level alone.
      power_prior_frames: how many frames the training set's power counts for ("running").
      power_memory_frames: over how many frames the power is averaged at most ("running").
      adaptation_prior_frames: how many frames the training set's mean and variance count for, if
        these are adapted.
      adaptation_memory_frames: over how many frames mean and variance of each bin are averaged at
        most; 0 leaves them as they are in the training set.
      power_floor: added to the mean power before the division, so that silence stays silent;
        1e-8 is -80 dB below full scale.
      log_floor: added to the power of each bin before the logarithm. White noise of mean power 1
        has a power of 1 in each bin, so 1e-4 hides what lies 40 dB below the utterance's mean.
    """

    sample_rate_hz: int = 16000
    window_ms: float = 20.0
    step_ms: float = 10.0
    power_normalization: str = "utterance"
    power_prior_frames: int = 100
    power_memory_frames: int = 1000
    adaptation_prior_frames: int = 1000
    adaptation_memory_frames: int = 0
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
        for name in ("power_prior_frames", "adaptation_prior_frames", "adaptation_memory_frames"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be >= 0. Received: {getattr(self, name)}")
        if self.power_memory_frames < 1:
            raise ValueError(
                f"power_memory_frames must be >= 1. Received: {self.power_memory_frames}"
            )
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

    @property
    def causal(self) -> "FeatureConfig":
        """The same in the form that streams can use: "running" instead of "utterance"."""
        if self.power_normalization != "utterance":
            return self
        return dataclasses.replace(self, power_normalization="running")

    def adapted(self, seconds: float) -> "FeatureConfig":
        """Returns the same with mean and variance adapted to the last seconds; 0 for not at all."""
        frames = math.ceil(seconds * self.sample_rate_hz / self.step)
        return dataclasses.replace(self, adaptation_memory_frames=frames)

    def span_ms(self, num_frames: int) -> float:
        """Returns the time from the start of a window to the end of the one `num_frames` later."""
        return 1000 * (num_frames * self.step + self.window) / self.sample_rate_hz

    def num_frames(self, num_samples: int) -> int:
        """Returns T for S samples: only whole windows count."""
        return max(0, 1 + (num_samples - self.window) // self.step)


def log_spectrogram(
    config: FeatureConfig, waveforms: tf.Tensor, lengths: tf.Tensor, power: float = TYPICAL_POWER
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the log power spectrograms of a batch of waveforms.

    Args:
      config: the analysis.
      waveforms: [B, S] float32 in [-1, 1], at `config.sample_rate_hz`. What lies past an
        utterance's length is ignored, whatever it holds.
      lengths: [B] int32, samples of each utterance.
      power: mean power of the training set's samples, of use for "running" alone.

    Returns:
      features [B, T, F] float32, zero past each length, and feature lengths [B] int32, where
      T = 1 + (S - window) // step, or 0 when S is shorter than a window.
    """
    waveforms = mask_frames(waveforms, lengths)
    if config.power_normalization == "utterance":
        energy = tf.reduce_sum(tf.square(waveforms), axis=1, keepdims=True)
        num_samples = tf.cast(tf.maximum(lengths, 1), tf.float32)[:, tf.newaxis]
        waveforms *= tf.math.rsqrt(energy / num_samples + config.power_floor)
    frame_lengths = tf.maximum(0, 1 + (lengths - config.window) // config.step)
    level = running_mean.start([power], tf.shape(waveforms)[0])
    features, _ = _analyze(config, waveforms, frame_lengths, level)
    return features, frame_lengths


def start(
    config: FeatureConfig, batch_size: int | tf.Tensor, power: float = TYPICAL_POWER
) -> dict[str, State]:
    """Returns the state of B streams for `step`.

    Args:
      config: the analysis.
      batch_size: B.
      power: as for `log_spectrogram`.

    Raises:
      ValueError: when the power of the whole utterance is needed; see `FeatureConfig.causal`.
    """
    if config.power_normalization == "utterance":
        raise ValueError("a stream cannot be scaled by the power of the whole utterance")
    window = SlidingWindow(config.window, config.step)
    return {
        "samples": window.start(batch_size, (), tf.float32),
        "level": running_mean.start([power], batch_size),
    }


def step(
    config: FeatureConfig, samples: tf.Tensor, lengths: tf.Tensor, state: dict[str, State]
) -> tuple[tf.Tensor, tf.Tensor, dict[str, State]]:
    """Returns the features of the windows that the next samples of B streams complete.

    The features of all steps together are those of `log_spectrogram` for the whole streams.

    Args:
      config: the analysis.
      samples: [B, S] float32; what lies past the lengths is ignored.
      lengths: [B] int32, as many samples as each stream brings, even none.
      state: from `start` or the last step.

    Returns:
      features [B, T, F] float32 with any T, zero past each length; their lengths [B] int32; the new
      state.
    """
    window = SlidingWindow(config.window, config.step)
    waveforms, frame_lengths, held = window.push(state["samples"], samples, lengths, None)
    features, level = _analyze(config, waveforms, frame_lengths, state["level"])
    return features, frame_lengths, {"samples": held, "level": level}


def _analyze(
    config: FeatureConfig, waveforms: tf.Tensor, frame_lengths: tf.Tensor, level: State
) -> tuple[tf.Tensor, State]:
    """Returns the spectrograms [B, T, F] of waveforms [B, S], and the level after them."""
    frames = tf.signal.frame(waveforms, config.window, config.step)
    if config.power_normalization == "running":
        # Windows overlap: of each only what is new counts.
        power = tf.reduce_mean(tf.square(frames[..., -config.step :]), axis=-1, keepdims=True)
        powers, level = running_mean.running_mean(
            power, frame_lengths, level, config.power_prior_frames, config.power_memory_frames
        )
        frames *= tf.math.rsqrt(powers + config.power_floor)
    window = tf.signal.hann_window(config.window)
    window_energy = 0.375 * config.window  # the sum of a Hann window's squares
    power = power_spectrum(frames * window) / window_energy
    return mask_frames(tf.math.log(power + config.log_floor), frame_lengths), level


def silence_value(config: FeatureConfig) -> float:
    """Returns the feature of a bin without any power."""
    return math.log(config.log_floor)
