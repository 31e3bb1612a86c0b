"""Per-bin mean and variance of the features: the training set's, or adapted to a stream."""

import dataclasses
import os
import zipfile
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from ds2_tf import atomic
from ds2_tf.errors import UserError
from ds2_tf.features import TYPICAL_POWER
from ds2_tf.layers.lengths import mask_frames
from ds2_tf.layers.sequence_layer import State
from ds2_tf.ops import running_mean

# Bins without sound (above half the rate of a recording that was resampled) hardly vary at all;
# dividing by their deviation would blow rounding errors up into features.
STANDARD_DEVIATION_FLOOR = 0.1


@dataclasses.dataclass(frozen=True)
class Normalization:
    """Shifts and scales features to mean 0 and variance 1 over the training set.

    Attributes:
      mean: [F] float32.
      standard_deviation: [F] float32, at least `STANDARD_DEVIATION_FLOOR`.
      power: mean power of the training set's samples, with which running power begins.
    """

    mean: np.ndarray
    standard_deviation: np.ndarray
    power: float = TYPICAL_POWER

    def __call__(self, features: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Returns normalised features [B, T, F], zero past each length.

        Args:
          features: [B, T, F] float32.
          lengths: [B] int32.
        """
        return mask_frames((features - self.mean) / self.standard_deviation, lengths)

    def start(self, batch_size: int | tf.Tensor) -> State:
        """Returns the state of B streams for `adapt`."""
        squares = np.square(self.standard_deviation) + np.square(self.mean)
        return running_mean.start(np.concatenate([self.mean, squares]), batch_size)

    def adapt(
        self,
        features: tf.Tensor,
        lengths: tf.Tensor,
        state: State,
        prior_frames: int,
        memory_frames: int,
    ) -> tuple[tf.Tensor, State]:
        """Returns features [B, T, F] normalised by what was heard up to each frame.

        Mean and variance begin with the training set's and follow the stream.

        Args:
          features: [B, T, F] float32, the stream's next frames.
          lengths: [B] int32.
          state: from `start` or the last call.
          prior_frames: how many frames the training set's statistics count for.
          memory_frames: over how many frames the stream's are averaged at most.

        Source: Deep Speech 2, section 7.
        """
        values = tf.concat([features, tf.square(features)], axis=-1)
        means, state = running_mean.running_mean(
            values, lengths, state, prior_frames, memory_frames
        )
        mean, squares = tf.split(means, 2, axis=-1)
        variance = tf.maximum(squares - tf.square(mean), STANDARD_DEVIATION_FLOOR**2)
        return mask_frames((features - mean) * tf.math.rsqrt(variance), lengths), state

    def save(self, path: str | os.PathLike) -> None:
        """Writes `normalization.npz`."""
        with atomic.open_for_write(path, "wb") as file:
            np.savez(file, **dataclasses.asdict(self))


def load(path: str | os.PathLike) -> Normalization:
    """Reads what `Normalization.save` wrote.

    Raises:
      UserError: when the file is missing or is not such a file.
    """
    try:
        with np.load(path) as arrays:
            return Normalization(
                arrays["mean"], arrays["standard_deviation"], float(arrays["power"])
            )
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path}: not the statistics that training writes ({error}); take the file from the "
            "model's own folder"
        ) from error


def mean_power(batches: Iterable[tuple[np.ndarray, np.ndarray]]) -> float:
    """Returns the mean power of all valid samples; 0 without any.

    Args:
      batches: pairs of waveforms [B, S], zero past their lengths, and lengths [B].
    """
    energy, count = 0.0, 0
    for waveforms, lengths in batches:
        energy += float(np.square(waveforms, dtype=np.float64).sum())
        count += int(np.sum(lengths))
    return energy / max(1, count)


def measure(
    batches: Iterable[tuple[np.ndarray, np.ndarray]], power: float = TYPICAL_POWER
) -> Normalization:
    """Returns the statistics of all valid frames.

    Args:
      batches: pairs of features [B, T, F] and lengths [B].
      power: of the samples that they were made of.

    Raises:
      ValueError: when there is no frame at all.
    """
    count = 0
    total: Any = 0.0
    squares: Any = 0.0
    for features, lengths in batches:
        valid = np.arange(features.shape[1]) < np.asarray(lengths)[:, np.newaxis]
        frames = np.asarray(features)[valid].astype(np.float64)
        count += len(frames)
        total = total + frames.sum(axis=0)
        squares = squares + np.square(frames).sum(axis=0)
    if count == 0:
        raise ValueError("statistics need at least one frame. Received: none")
    mean = total / count
    deviation = np.sqrt(np.maximum(squares / count - np.square(mean), 0.0))
    return Normalization(
        mean.astype(np.float32),
        np.maximum(deviation, STANDARD_DEVIATION_FLOOR).astype(np.float32),
        power,
    )
