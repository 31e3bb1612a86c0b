"""Per-bin mean and variance of the training set's features."""

import dataclasses
import os
import zipfile
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from ds2_tf import atomic
from ds2_tf.errors import UserError

# Bins without sound (above half the rate of a recording that was resampled) hardly vary at all;
# dividing by their deviation would blow rounding errors up into features.
STANDARD_DEVIATION_FLOOR = 0.1


@dataclasses.dataclass(frozen=True)
class Normalization:
    """Shifts and scales features to mean 0 and variance 1 over the training set.

    Attributes:
      mean: [F] float32.
      standard_deviation: [F] float32, at least `STANDARD_DEVIATION_FLOOR`.
    """

    mean: np.ndarray
    standard_deviation: np.ndarray

    def __call__(self, features: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Returns normalised features [B, T, F], zero past each length.

        Args:
          features: [B, T, F] float32.
          lengths: [B] int32.
        """
        normalised = (features - self.mean) / self.standard_deviation
        mask = tf.sequence_mask(lengths, tf.shape(features)[1])[:, :, tf.newaxis]
        return tf.where(mask, normalised, 0.0)

    def save(self, path: str | os.PathLike) -> None:
        """Writes `normalization.npz`."""
        with atomic.open_for_write(path, "wb") as file:
            np.savez(file, mean=self.mean, standard_deviation=self.standard_deviation)


def load(path: str | os.PathLike) -> Normalization:
    """Reads what `Normalization.save` wrote.

    Raises:
      UserError: when the file is missing or is not such a file.
    """
    try:
        with np.load(path) as arrays:
            return Normalization(arrays["mean"], arrays["standard_deviation"])
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path}: not the statistics that training writes ({error}); take the file from the "
            "model's own folder"
        ) from error


def measure(batches: Iterable[tuple[np.ndarray, np.ndarray]]) -> Normalization:
    """Returns the statistics of all valid frames.

    Args:
      batches: pairs of features [B, T, F] and lengths [B].

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
    )
