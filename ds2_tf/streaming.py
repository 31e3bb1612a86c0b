"""Recognition while the sound comes: the same frames as for the whole recording, piece by piece."""

import numpy as np
import tensorflow as tf

from ds2_tf import model
from ds2_tf.acoustic_model import AcousticModel
from ds2_tf.errors import UserError
from ds2_tf.layers.sequence_layer import State

# A long piece is taken in parts, so that memory does not grow with it.
_LARGEST_PIECE_SECONDS = 5.0


class StreamingModel(tf.Module):
    """Samples to log-probabilities for B streams, each in a phase of its own.

    The frames of all steps together are those of `AcousticModel.log_probabilities` with the causal
    form of the features (`FeatureConfig.causal`), to rounding. A row's state is all that it needs
    of its past: rows may move between batches.

    Attributes:
      model: the acoustic model, with the causal form of its features.
      lookahead_ms: how long after a frame's first sample its last one comes that it depends on.
    """

    def __init__(self, acoustic_model: AcousticModel) -> None:
        """Takes a forward-only model.

        Raises:
          UserError: for a bidirectional one.
        """
        super().__init__(name="streaming_model")
        lookahead_frames = acoustic_model.network.lookahead_frames
        if lookahead_frames is None:
            raise UserError(
                "the model is bidirectional: it needs the whole recording and cannot follow a "
                "stream; train one with config.model.bidirectional=False"
            )
        self.model = acoustic_model.with_features(acoustic_model.feature_config.causal)
        self.lookahead_ms = self.model.feature_config.span_ms(lookahead_frames)
        self._parts = {part: tuple(tensors) for part, tensors in self._start(1).items()}
        row = {
            name: tf.TensorSpec([None, *t.shape[1:]], t.dtype) for name, t in self.start(1).items()
        }
        self._compiled_step = tf.function(
            self._step,
            input_signature=[
                tf.TensorSpec([None, None], tf.float32),
                tf.TensorSpec([None], tf.int32),
                tf.TensorSpec([None], tf.bool),
                row,
            ],
        )

    def start(self, batch_size: int | tf.Tensor) -> State:
        """Returns the state of B streams of which nothing has come: tensors [B, ...] by name."""
        return self._flatten(self._start(batch_size))

    def step(
        self, samples: tf.Tensor, lengths: tf.Tensor, final: tf.Tensor, state: State
    ) -> tuple[tf.Tensor, tf.Tensor, State]:
        """Takes the next samples of B streams, and returns every frame that they allow.

        Args:
          samples: [B, S] float32 in [-1, 1] at the model's rate; what lies past the lengths is
            ignored.
          lengths: [B] int32, as many samples as each stream brings, even none.
          final: [B] bool, which streams end with them. Their states are those of new streams then.
          state: from `start` or the last step.

        Returns:
          log-probabilities [B, T', V] float32, zero past each length; the lengths [B] int32; the
          new state.
        """
        return self._compiled_step(samples, lengths, final, state)

    def advance(
        self,
        samples: tf.Tensor,
        lengths: tf.Tensor,
        state: State,
        final: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor, State]:
        """Does what `step` does as a part of a graph to be compiled.

        `final` is None if no stream ends, and the state of one that ended is of no use.
        """
        parts = self._unflatten(state)
        spectrograms, lengths, heard = self.model.frontend.step(samples, lengths, parts)
        logits, lengths, known = self.model.network.step(spectrograms, lengths, parts, final)
        new = self._flatten({**heard, **known})
        return model.masked_log_probabilities(logits, lengths), lengths, new

    def _start(self, batch_size: int | tf.Tensor) -> dict[str, State]:
        return {**self.model.frontend.start(batch_size), **self.model.network.start(batch_size)}

    def _step(
        self, samples: tf.Tensor, lengths: tf.Tensor, final: tf.Tensor, state: State
    ) -> tuple[tf.Tensor, tf.Tensor, State]:
        log_probs, lengths, new = self.advance(samples, lengths, state, final)
        for name, fresh in self.start(tf.shape(samples)[0]).items():
            ends = tf.reshape(final, [-1, *[1] * (len(fresh.shape) - 1)])
            new[name] = tf.ensure_shape(tf.where(ends, fresh, new[name]), state[name].shape)
        return log_probs, lengths, new

    def _flatten(self, parts: dict[str, State]) -> State:
        return {
            f"{part}_{name}": tensor
            for part, tensors in parts.items()
            for name, tensor in tensors.items()
        }

    def _unflatten(self, state: State) -> dict[str, State]:
        return {
            part: {name: state[f"{part}_{name}"] for name in names}
            for part, names in self._parts.items()
        }


class AudioStream:
    """One stream: samples in pieces of any length to frames, computed as soon as they can be."""

    def __init__(self, streaming_model: StreamingModel) -> None:
        self._model = streaming_model
        self.start()

    def start(self) -> None:
        """Begins a new stream."""
        self._state = self._model.start(1)
        self._waiting: list[np.ndarray] = []
        self._num_samples = 0

    def accept(self, samples: np.ndarray) -> np.ndarray:
        """Returns the log-probabilities [T', V] of every frame that the samples allow.

        Args:
          samples: [S] float32 in [-1, 1] at the model's rate.
        """
        config = self._model.model.feature_config
        largest = round(_LARGEST_PIECE_SECONDS * config.sample_rate_hz)
        frames = [self._no_frames()]
        for first in range(0, len(samples), largest):
            piece = samples[first : first + largest]
            windows_before = config.num_frames(self._num_samples)
            self._num_samples += len(piece)
            self._waiting.append(piece)
            # Without a complete window the model would have nothing to say.
            if config.num_frames(self._num_samples) > windows_before:
                frames.append(self._step(final=False))
        return np.concatenate(frames)

    def finish(self) -> np.ndarray:
        """Returns the frames [T', V] that waited for more, and begins a new stream."""
        frames = self._step(final=True)
        self.start()
        return frames

    def _step(self, final: bool) -> np.ndarray:
        samples = np.concatenate([np.zeros(0, np.float32), *self._waiting])
        self._waiting = []
        log_probs, lengths, self._state = self._model.step(
            tf.constant(samples[np.newaxis]),
            tf.constant([len(samples)]),
            tf.constant([final]),
            self._state,
        )
        return log_probs.numpy()[0, : int(lengths[0])]

    def _no_frames(self) -> np.ndarray:
        return np.zeros((0, self._model.model.alphabet.num_labels), np.float32)
