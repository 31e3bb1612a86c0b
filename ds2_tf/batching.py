"""Which utterances share a batch, and in which order the batches come."""

import dataclasses

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class BatchConfig:
    """How an epoch is cut into batches.

    Attributes:
      batch_size: most utterances in a batch, over all replicas.
      max_frames: most feature frames in a batch, over all replicas and with padding: long
        utterances come in smaller batches; 0 for no limit. One utterance may be longer.
      sorted_epochs: epochs that go from short to long utterances (SortaGrad); 0 for none, -1 for
        all.
      num_buckets: classes of length whose utterances may meet in a batch of the other epochs.
    """

    batch_size: int = 16
    max_frames: int = 0
    sorted_epochs: int = 1
    num_buckets: int = 12

    def __post_init__(self) -> None:
        """Rejects sizes below 1."""
        for name, least in (
            ("batch_size", 1),
            ("num_buckets", 1),
            ("max_frames", 0),
            ("sorted_epochs", -1),
        ):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be >= {least}. Received: {getattr(self, name)}")


def plan(config: BatchConfig, lengths: np.ndarray, seed: int, epoch: int) -> list[np.ndarray]:
    """Returns the batches of an epoch as arrays of utterance indices; each utterance occurs once.

    Sorted epochs go from short to long. The others shuffle the utterances, put those of similar
    length together and shuffle the batches; what is left over in the classes of length is put
    together, again by length: batch normalisation has little to learn from tiny batches. The same
    arguments give the same plan, so a run that resumes needs only to count batches.

    Args:
      config: sizes.
      lengths: [N] the feature frames of each utterance.
      seed: of the run.
      epoch: counted from 0.

    Source: Deep Speech 2, section 3.3 (SortaGrad).
    """
    if config.sorted_epochs < 0 or epoch < config.sorted_epochs:
        return _cut(config, np.argsort(lengths, kind="stable"), lengths)
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(lengths))
    batches, left_over = _bucketed(config, order, lengths)
    by_length = left_over[np.argsort(lengths[left_over], kind="stable")]
    batches += _cut(config, by_length, lengths)
    return [batches[i] for i in generator.permutation(len(batches))]


def padding_share(batches: list[np.ndarray], lengths: np.ndarray) -> float:
    """Returns which part of all padded frames is padding, in [0, 1)."""
    padded = sum(len(batch) * lengths[batch].max() for batch in batches)
    return 1 - lengths[np.concatenate(batches)].sum() / padded if padded else 0.0


def _limit(config: BatchConfig, longest: int) -> int:
    """Returns how many utterances of up to so many frames a batch may hold."""
    if not config.max_frames:
        return config.batch_size
    return max(1, min(config.batch_size, config.max_frames // max(longest, 1)))


def _cut(config: BatchConfig, order: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    """Returns the batches of utterances in a given order, short ones first."""
    batches, start = [], 0
    for end in range(1, len(order) + 1):
        if end == len(order) or end + 1 - start > _limit(config, int(lengths[order[end]])):
            batches.append(order[start:end])
            start = end
    return batches


def _bucketed(
    config: BatchConfig, order: np.ndarray, lengths: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """Returns the full batches of each class of length, and the utterances left over."""
    limits = np.quantile(lengths, np.arange(1, config.num_buckets) / config.num_buckets)
    classes = np.searchsorted(limits, lengths, side="right").astype(np.int32)
    longest = np.zeros(config.num_buckets, np.int64)
    np.maximum.at(longest, classes, lengths)
    sizes = [_limit(config, int(frames)) for frames in longest]
    dataset = tf.data.Dataset.from_tensor_slices((order, classes[order]))
    batches = dataset.bucket_by_sequence_length(
        element_length_func=lambda _, number: number,
        bucket_boundaries=list(range(1, config.num_buckets)),
        bucket_batch_sizes=sizes,
    )
    full: list[np.ndarray] = []
    left_over = [np.zeros(0, order.dtype)]
    for indices, numbers in batches.as_numpy_iterator():
        is_full = len(indices) == sizes[numbers[0]]
        (full if is_full else left_over).append(indices)
    return full, np.concatenate(left_over)
