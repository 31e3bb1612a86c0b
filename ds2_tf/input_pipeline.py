"""Utterances to padded batches of features and labels."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from ds2_tf import audio, audio_tfio, batching, features
from ds2_tf.alphabet import Alphabet
from ds2_tf.augment import AugmentConfig, Augmenter
from ds2_tf.errors import UserError
from ds2_tf.frontend import Frontend
from ds2_tf.manifest import Utterance
from ds2_tf.model import ModelConfig
from ds2_tf.normalization import Normalization

_NAMED_ROWS = 4
PADDING_ROW = -1  # the utterance_index of a row that only fills up a replica's share

BATCH_SIGNATURE = {
    "utterance_index": tf.TensorSpec([None], tf.int32),
    "features": tf.TensorSpec([None, None, None], tf.float32),
    "feature_lengths": tf.TensorSpec([None], tf.int32),
    "labels": tf.TensorSpec([None, None], tf.int32),
    "label_lengths": tf.TensorSpec([None], tf.int32),
}


class BadAudio:
    """Counts the recordings that fail after the check of the data; stops when they are many."""

    def __init__(self, num_utterances: int, max_share: float) -> None:
        self._num_utterances = num_utterances
        self._max_share = max_share
        self.messages: dict[int, str] = {}

    def add(self, index: int, error: audio.AudioError) -> None:
        """Notes and logs that an utterance's recording could not be read."""
        if index not in self.messages:
            self.messages[index] = str(error)
            logging.error("left out, %d so far: %s", len(self.messages), error)

    def check(self) -> None:
        """Raises `UserError` when more than the stated share of the utterances failed."""
        if len(self.messages) > self._max_share * self._num_utterances:
            raise UserError(
                f"{len(self.messages)} of {self._num_utterances} recordings cannot be read, more "
                f"than max_bad_share={self._max_share:g} allows; the latest: "
                f"{list(self.messages.values())[-1]}"
            )


@dataclasses.dataclass(frozen=True)
class Epoch:
    """The batches of one epoch that are still to come.

    Attributes:
      dataset: yields batches as `BATCH_SIGNATURE` says.
      num_frames: planned length of each batch of the whole epoch, in feature frames.
      num_rows: rows of each batch of the whole epoch that each replica works on.
      padding_share: of the whole epoch's frames, in [0, 1).
    """

    dataset: tf.data.Dataset
    num_frames: list[int]
    num_rows: list[int]
    padding_share: float

    @property
    def num_batches(self) -> int:
        """Batches of the whole epoch."""
        return len(self.num_frames)


class InputPipeline:
    """Makes batches from a list of utterances, one epoch at a time."""

    def __init__(
        self,
        utterances: Sequence[Utterance],
        alphabet: Alphabet,
        feature_config: features.FeatureConfig,
        model_config: ModelConfig,
        normalization: Normalization,
        *,
        batch_config: batching.BatchConfig | None = None,
        augment_config: AugmentConfig | None = None,
        seed: int = 0,
        num_replicas: int = 1,
        worker: int = 0,
        num_workers: int = 1,
        max_bad_share: float = 0.0,
    ) -> None:
        """Encodes the transcripts.

        Args:
          utterances: all of an epoch.
          alphabet: encodes the transcripts.
          feature_config: the spectrograms.
          model_config: its strides tell whether a transcript fits its audio.
          normalization: applied to the spectrograms.
          batch_config: sizes and order of the batches.
          augment_config: variation of the audio; None for none.
          seed: of shuffling and variation.
          num_replicas: of all workers together; batches are filled up with empty rows to a
            multiple of it.
          worker: whose rows of each batch are loaded, from 0.
          num_workers: how many share the batches.
          max_bad_share: share of recordings that may fail before `bad_audio.check` raises.

        Raises:
          UserError: for a transcript with characters outside the alphabet.
        """
        self.bad_audio = BadAudio(len(utterances), max_bad_share)
        self._utterances = utterances
        self._labels = [_encode(alphabet, utterance) for utterance in utterances]
        self._durations = np.array([u.duration_seconds for u in utterances])
        self._feature_config = feature_config
        self._model_config = model_config
        self._frontend = Frontend(feature_config, normalization)
        self._batch_config = batch_config or batching.BatchConfig()
        self._augment_config = augment_config or AugmentConfig()
        self._seed = seed
        self._num_replicas = num_replicas
        self._worker = worker
        self._num_workers = num_workers
        decoder = "tensorflow-io, in the graph" if audio_tfio.available() else "libsndfile"
        logging.info("recordings are decoded by %s", decoder)

    def epoch(self, epoch: int, skip_batches: int = 0) -> Epoch:
        """Returns the batches of an epoch from number `skip_batches` on.

        Batches depend on the seed, the epoch and their number only.
        """
        augmenter = Augmenter(
            self._augment_config, self._feature_config.sample_rate_hz, self._seed, epoch
        )
        speeds = [augmenter.speed(index) for index in range(len(self._utterances))]
        lengths = np.array([self._num_frames(d) for d in self._durations / speeds])
        global_batches = batching.plan(self._batch_config, lengths, self._seed, epoch)
        rows = [-(-len(batch) // self._num_replicas) for batch in global_batches]
        batches = [self._own(batch, n) for batch, n in zip(global_batches, rows, strict=True)]

        paths = [[p for i in batch for p in self._utterances[i].audio_paths] for batch in batches]
        in_graph = audio_tfio.Decoded() if audio_tfio.available() else None

        def load(number: np.int64, *decoded: np.ndarray) -> tuple[np.ndarray, ...]:
            read = in_graph.reader(paths[number], *decoded) if in_graph else audio.load
            num_rows = rows[number] * self._num_replicas // self._num_workers
            return self._load(batches[number], num_rows, augmenter, speeds, read)

        def decoded_by_graph(number: tf.Tensor) -> Sequence[tf.Tensor]:
            names = tf.ragged.constant(paths, tf.string, ragged_rank=1)[number]
            return in_graph.decode(names) if in_graph else ()

        def features_of(number: tf.Tensor) -> dict[str, tf.Tensor]:
            indices, waveforms, waveform_lengths, labels, label_lengths = tf.numpy_function(
                load,
                [number, *decoded_by_graph(number)],
                [tf.int32, tf.float32, tf.int32, tf.int32, tf.int32],
            )
            waveforms.set_shape([None, None])
            waveform_lengths.set_shape([None])
            spectrograms, lengths = self._frontend(waveforms, waveform_lengths)
            batch = {
                "utterance_index": indices,
                "features": spectrograms,
                "feature_lengths": lengths,
                "labels": labels,
                "label_lengths": label_lengths,
            }
            return {
                key: tf.ensure_shape(value, BATCH_SIGNATURE[key].shape)
                for key, value in batch.items()
            }

        dataset = tf.data.Dataset.range(skip_batches, len(batches)).map(
            features_of, num_parallel_calls=os.cpu_count(), deterministic=True
        )
        options = tf.data.Options()
        # Its thread sleeps for up to a minute, and the end of an epoch would wait for that.
        options.autotune.enabled = False
        return Epoch(
            dataset.prefetch(4).with_options(options),
            [int(lengths[batch].max()) for batch in global_batches],
            rows,
            batching.padding_share(global_batches, lengths),
        )

    def name_rows(self, indices: Sequence[int]) -> str:
        """Returns the manifest lines and files of some utterances, for messages."""
        rows = [self._utterances[i] for i in indices if i != PADDING_ROW]
        named = "; ".join(f"{u.manifest}:{u.line} {u.audio_path}" for u in rows[:_NAMED_ROWS])
        more = f"; and {len(rows) - _NAMED_ROWS} more" if len(rows) > _NAMED_ROWS else ""
        return named + more

    def _num_frames(self, seconds: float) -> int:
        return self._feature_config.num_frames(round(seconds * self._feature_config.sample_rate_hz))

    def _own(self, batch: np.ndarray, rows_per_replica: int) -> np.ndarray:
        """Returns this worker's part of a batch of all workers."""
        size = rows_per_replica * self._num_replicas // self._num_workers
        return batch[self._worker * size : (self._worker + 1) * size]

    def _fits(self, index: int, num_samples: int) -> bool:
        """Returns whether so many samples have the frames that CTC needs for the transcript."""
        labels = self._labels[index]
        required = len(labels) + int(np.count_nonzero(labels[1:] == labels[:-1]))
        num_frames = self._feature_config.num_frames(num_samples)
        return self._model_config.num_output_frames(num_frames) >= required

    def _load(
        self,
        indices: np.ndarray,
        num_rows: int,
        augmenter: Augmenter,
        speeds: Sequence[float],
        read: Callable[[str, int], np.ndarray],
    ) -> tuple[np.ndarray, ...]:
        """Returns a batch's indices, waveforms, their lengths, labels and their lengths.

        Rows without utterance fill it up to `num_rows`.
        """
        rows: list[tuple[int, np.ndarray, np.ndarray]] = []
        for index in indices.tolist():
            try:
                samples = audio.load_utterance(
                    self._utterances[index], self._feature_config.sample_rate_hz, read
                )
                changed = augmenter.change_speed(samples, speeds[index])
                if self._fits(index, len(changed)):
                    samples = changed
                samples = augmenter.change_channel(samples, index)
                samples = augmenter.add_noise(samples, index)
                samples = augmenter.change_level(samples, index)
            except audio.AudioError as error:
                self.bad_audio.add(index, error)
                continue
            rows.append((index, samples, self._labels[index]))
        nothing: Any = (PADDING_ROW, np.zeros(0, np.float32), np.zeros(0, np.int32))
        rows += [nothing] * (num_rows - len(rows))
        one_frame = self._feature_config.window  # no layer takes a batch without any frame
        waveforms, waveform_lengths = pad([row[1] for row in rows], np.float32, one_frame)
        labels, label_lengths = pad([row[2] for row in rows], np.int32)
        indices = np.array([row[0] for row in rows], np.int32)
        return indices, waveforms, waveform_lengths, labels, label_lengths


def _encode(alphabet: Alphabet, utterance: Utterance) -> np.ndarray:
    try:
        return np.array(alphabet.encode(utterance.transcript), np.int32)
    except ValueError as error:
        raise UserError(
            f"{utterance.manifest}:{utterance.line}: {error}; write them with the alphabet's, or "
            "remove the row"
        ) from error


def pad(
    sequences: Sequence[np.ndarray], dtype: Any, min_width: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sequences as rows of an array [B, longest], zero-padded, and lengths [B].

    The array has at least `min_width` columns.
    """
    lengths = np.array([len(sequence) for sequence in sequences], np.int32)
    padded = np.zeros((len(sequences), lengths.max(initial=min_width)), dtype)
    for row, sequence in zip(padded, sequences, strict=True):
        row[: len(sequence)] = sequence
    return padded, lengths
