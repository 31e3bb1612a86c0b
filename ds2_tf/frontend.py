"""Samples to the network's input: log spectrograms, normalised."""

import tensorflow as tf

from ds2_tf import features
from ds2_tf.layers.sequence_layer import State
from ds2_tf.normalization import Normalization


class Frontend:
    """Features and normalisation, of whole waveforms or of streams as their samples come.

    Attributes:
      config: the spectrograms, and whether the normalisation adapts to what is heard.
      normalization: the training set's statistics.
    """

    def __init__(self, config: features.FeatureConfig, normalization: Normalization) -> None:
        self.config = config
        self.normalization = normalization

    def __call__(self, waveforms: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns features [B, T, F] float32, zero past each length, and their lengths [B] int32.

        Args:
          waveforms: [B, S] float32 in [-1, 1]; what lies past the lengths is ignored.
          lengths: [B] int32.
        """
        spectrograms, frame_lengths = features.log_spectrogram(
            self.config, waveforms, lengths, self.normalization.power
        )
        start = self.normalization.start(tf.shape(waveforms)[0])
        normalized, _ = self._normalize(spectrograms, frame_lengths, start)
        return normalized, frame_lengths

    def start(self, batch_size: int | tf.Tensor) -> dict[str, State]:
        """Returns the state of B streams of which nothing has come.

        Raises:
          ValueError: for features that no stream can have; see `FeatureConfig.causal`.
        """
        state = features.start(self.config, batch_size, self.normalization.power)
        return {**state, "statistics": self.normalization.start(batch_size)}

    def step(
        self, samples: tf.Tensor, lengths: tf.Tensor, state: dict[str, State]
    ) -> tuple[tf.Tensor, tf.Tensor, dict[str, State]]:
        """Returns the features that the next samples of B streams allow: see `features.step`."""
        spectrograms, frame_lengths, new_state = features.step(self.config, samples, lengths, state)
        normalized, statistics = self._normalize(spectrograms, frame_lengths, state["statistics"])
        return normalized, frame_lengths, {**new_state, "statistics": statistics}

    def _normalize(
        self, spectrograms: tf.Tensor, lengths: tf.Tensor, state: State
    ) -> tuple[tf.Tensor, State]:
        if not self.config.adaptation_memory_frames:
            return self.normalization(spectrograms, lengths), state
        return self.normalization.adapt(
            spectrograms,
            lengths,
            state,
            self.config.adaptation_prior_frames,
            self.config.adaptation_memory_frames,
        )
