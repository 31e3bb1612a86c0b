"""Which utterances share a batch, and in which order the batches come."""

import dataclasses

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class BatchConfig:
    """How an epoch is cut into batches.

    Attributes:
      batch_size: utterances in a batch, over all replicas.
      sorted_epochs: epochs that go from short to long utterances (SortaGrad).
      num_buckets: classes of length whose utterances may meet in a batch of a later epoch.
    """

    batch_size: int = 16
    sorted_epochs: int = 1
    num_buckets: int = 12

    def __post_init__(self) -> None:
        """Rejects sizes below 1."""
        for name in ("batch_size", "num_buckets"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be >= 1. Received: {getattr(self, name)}")


def plan(config: BatchConfig, lengths: np.ndarray, seed: int, epoch: int) -> list[np.ndarray]:
    """Returns the batches of an epoch as arrays of utterance indices; each utterance occurs once.

    The first `sorted_epochs` epochs go from short to long. Later ones shuffle the utterances, put
    those of similar length together and shuffle the batches. The same arguments give the same plan,
    so a run that resumes needs only to count batches.

    Args:
      config: sizes.
      lengths: [N] the length of each utterance, in any unit.
      seed: of the run.
      epoch: counted from 0.

    Source: Deep Speech 2, section 3.3 (SortaGrad).
    """
    if epoch < config.sorted_epochs:
        order = np.argsort(lengths, kind="stable")
        return [order[i : i + config.batch_size] for i in range(0, len(order), config.batch_size)]
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(lengths))
    batches = list(_bucketed(config, order, lengths).as_numpy_iterator())
    return [batches[i] for i in generator.permutation(len(batches))]


def padding_share(batches: list[np.ndarray], lengths: np.ndarray) -> float:
    """Returns which part of all padded frames is padding, in [0, 1)."""
    padded = sum(len(batch) * lengths[batch].max() for batch in batches)
    return 1 - lengths[np.concatenate(batches)].sum() / padded if padded else 0.0


def _bucketed(config: BatchConfig, order: np.ndarray, lengths: np.ndarray) -> tf.data.Dataset:
    limits = np.quantile(lengths, np.arange(1, config.num_buckets) / config.num_buckets)
    buckets = np.searchsorted(limits, lengths[order], side="right").astype(np.int32)
    dataset = tf.data.Dataset.from_tensor_slices((order, buckets))
    return dataset.bucket_by_sequence_length(
        element_length_func=lambda _, bucket: bucket,
        bucket_boundaries=list(range(1, config.num_buckets)),
        bucket_batch_sizes=[config.batch_size] * config.num_buckets,
    ).map(lambda indices, _: indices)
