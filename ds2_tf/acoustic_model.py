"""A trained network with all around it: waveforms in, log-probabilities of symbols out."""

import dataclasses
import os
import pathlib

import tensorflow as tf

from ds2_tf import checkpoint, config, features, frontend, model, normalization
from ds2_tf.alphabet import Alphabet
from ds2_tf.errors import UserError

NOT_A_NUMBER = (
    "the model's output is not a number: its weights are damaged; restore them or train again"
)
BEST_WEIGHTS = pathlib.PurePath("best", "weights.npz")


class AcousticModel(tf.Module):
    """Features, normalisation and network as one function of the waveform.

    Attributes:
      config: the settings of the run that trained it.
      alphabet: what its labels mean.
      network: the Keras model.
      normalization: the training set's feature statistics.
      frontend: features and normalisation of waveforms.
    """

    def __init__(
        self,
        run_config: config.RunConfig,
        alphabet: Alphabet,
        statistics: normalization.Normalization,
        network: model.DeepSpeech2,
    ) -> None:
        super().__init__(name="acoustic_model")
        self.config = run_config
        self.alphabet = alphabet
        self.normalization = statistics
        self.network = network
        self.frontend = frontend.Frontend(run_config.features, statistics)

    @property
    def feature_config(self) -> features.FeatureConfig:
        """How waveforms become features."""
        return self.config.features

    @property
    def sample_rate_hz(self) -> int:
        """Rate of the waveforms that it takes."""
        return self.feature_config.sample_rate_hz

    @property
    def seconds_per_frame(self) -> float:
        """Time between two output frames."""
        return self.feature_config.step * self.config.model.time_stride / self.sample_rate_hz

    @property
    def streams_exactly(self) -> bool:
        """Whether it hears in a stream what it hears in the whole recording."""
        is_causal = self.feature_config == self.feature_config.causal
        return is_causal and self.network.lookahead_frames is not None

    @classmethod
    def load(cls, workdir: str | os.PathLike) -> "AcousticModel":
        """Reads the best weights of a run.

        Raises:
          UserError: when the folder lacks a file or holds a damaged one.
        """
        folder = pathlib.Path(workdir)
        run_config = config.load(folder / "config.json")
        alphabet = Alphabet.load(folder / "alphabet.json")
        statistics = normalization.load(folder / "normalization.npz")
        network = model.DeepSpeech2(
            run_config.model, run_config.features.num_bins, alphabet.num_labels
        )
        weights = folder / BEST_WEIGHTS
        if not weights.exists():
            raise UserError(f"{weights}: not found; `ds2 train` writes it after its first epoch")
        checkpoint.restore(weights, checkpoint.model_arrays(network))
        return cls(run_config, alphabet, statistics, network)

    def with_features(self, feature_config: features.FeatureConfig) -> "AcousticModel":
        """Returns the same model with other features, as in the causal form of a stream."""
        run_config = dataclasses.replace(self.config, features=feature_config)
        return AcousticModel(run_config, self.alphabet, self.normalization, self.network)

    @tf.function(
        input_signature=[tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([None], tf.int32)]
    )
    def log_probabilities(
        self, waveforms: tf.Tensor, lengths: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns log-probabilities [B, T', V] float32, zero past each length, and lengths [B].

        Args:
          waveforms: [B, S] float32 in [-1, 1] at `sample_rate_hz`.
          lengths: [B] int32, samples of each utterance; what lies past them is ignored.

        B = 0, S = 0 and utterances shorter than a window (T' = 0) are legal.
        """
        num_rows, num_samples = tf.shape(waveforms)[0], tf.shape(waveforms)[1]
        # Some operations fail without any row or frame: one row and one window of padding change
        # nothing, and are cut off again.
        window = self.feature_config.window
        missing_rows = tf.maximum(0, 1 - num_rows)
        missing_samples = tf.maximum(0, window - num_samples)
        waveforms = tf.pad(waveforms, [[0, missing_rows], [0, missing_samples]])
        lengths = tf.pad(lengths, [[0, missing_rows]])
        spectrograms, feature_lengths = self.frontend(waveforms, lengths)
        outputs = self.network(
            {"features": spectrograms, "feature_lengths": feature_lengths}, training=False
        )
        log_probabilities = model.masked_log_probabilities(
            outputs["logits"], outputs["logit_lengths"]
        )
        num_frames = tf.where(num_samples < window, 0, tf.shape(log_probabilities)[1])
        return log_probabilities[:num_rows, :num_frames], outputs["logit_lengths"][:num_rows]
