import collections
import pathlib
import runpy

import numpy as np
import pytest

from ds2_tf import batching, config
from ds2_tf.augment import Augmenter
from ds2_tf.batching import BatchConfig
from ds2_tf.corpora import digit_strings

CONFIGS = pathlib.Path(__file__).parents[1] / "configs"


def random_lengths(count, seed=0):
    return np.random.default_rng(seed).uniform(0.3, 12.0, count)


def as_lists(batches):
    return [batch.tolist() for batch in batches]


@pytest.mark.parametrize(
    ("epoch", "count", "num_buckets"),
    [(0, 1, 12), (0, 500, 12), (1, 1, 12), (1, 17, 1), (7, 16, 12), (7, 500, 12)],
)
def test_every_utterance_occurs_once_an_epoch(epoch, count, num_buckets):
    batches = batching.plan(BatchConfig(16, 1, num_buckets), random_lengths(count), 3, epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(count))
    sizes = [len(batch) for batch in batches]
    assert max(sizes) <= 16
    assert sum(size < 16 for size in sizes) <= (1 if epoch == 0 else num_buckets)


@pytest.mark.parametrize("lengths", [np.full(50, 2.5), np.repeat([1.0, 3.0], 25)])
def test_equal_lengths_and_few_different_ones(lengths):
    batches = batching.plan(BatchConfig(8), lengths, 0, 1)
    assert sorted(np.concatenate(batches).tolist()) == list(range(50))


def test_sorted_epochs_go_from_short_to_long():
    lengths = random_lengths(100)
    for epoch in range(2):
        batches = batching.plan(BatchConfig(16, sorted_epochs=2), lengths, 0, epoch)
        order = np.concatenate(batches)
        assert (np.diff(lengths[order]) >= 0).all()
        assert [len(batch) for batch in batches] == [16] * 6 + [4]
    third = batching.plan(BatchConfig(16, sorted_epochs=2), lengths, 0, 2)
    assert (np.diff(lengths[np.concatenate(third)]) < 0).any()


def test_utterances_of_equal_length_keep_their_order_when_sorted():
    batches = batching.plan(BatchConfig(3), np.array([2.0, 1.0, 2.0, 1.0, 2.0]), 0, 0)
    assert as_lists(batches) == [[1, 3, 0], [2, 4]]


def test_a_plan_is_the_same_whenever_it_is_asked_for():
    lengths = random_lengths(300)
    first, second = (batching.plan(BatchConfig(), lengths, 7, 3) for _ in range(2))
    assert as_lists(first) == as_lists(second)


def test_later_epochs_differ_by_seed_and_epoch():
    lengths = random_lengths(300)
    plans = [
        batching.plan(BatchConfig(), lengths, seed, epoch)
        for seed, epoch in [(1, 1), (1, 2), (2, 1)]
    ]
    for i, plan in enumerate(plans):
        for other in plans[:i]:
            assert as_lists(plan) != as_lists(other)
            sets = {frozenset(batch) for batch in as_lists(plan)}
            # The company in a batch changes, too, not only the order of the batches.
            assert len(sets & {frozenset(batch) for batch in as_lists(other)}) < len(sets) / 4


def test_batches_of_later_epochs_come_in_random_order():
    lengths = random_lengths(1600)
    batches = batching.plan(BatchConfig(), lengths, 0, 1)
    longest = np.array([lengths[batch].max() for batch in batches])
    position = np.arange(len(batches))
    assert abs(np.corrcoef(position, longest)[0, 1]) < 0.3
    partial = [i for i, batch in enumerate(batches) if len(batch) < 16]
    assert partial
    assert min(partial) < len(batches) / 2
    short = collections.Counter(position[longest < np.median(longest)] // (len(batches) // 4))
    assert min(short[quarter] for quarter in range(4)) >= 5


def test_only_neighbours_in_length_share_a_batch():
    lengths = random_lengths(1200)
    limits = np.quantile(lengths, np.arange(1, 12) / 12)
    for batch in batching.plan(BatchConfig(), lengths, 0, 1):
        assert len(set(np.searchsorted(limits, lengths[batch]))) <= 2
        assert lengths[batch].max() - lengths[batch].min() < 1.2


def test_padding_share_counts_frames():
    lengths = np.array([2.0, 4.0, 3.0])
    batches = [np.array([0, 1]), np.array([2])]
    assert batching.padding_share(batches, lengths) == pytest.approx(2 / 11)
    assert batching.padding_share([np.array([2])], lengths) == 0
    assert batching.padding_share([], lengths) == 0


@pytest.fixture(scope="module")
def demo_durations(digits_folder):
    utterances = digit_strings.splits(digit_strings.read(digits_folder), "theo")["train"]
    return np.array([utterance.duration_seconds for utterance in utterances])


@pytest.fixture(scope="module")
def demo_run():
    return config.resolve(runpy.run_path(str(CONFIGS / "digits.py"))["get_config"]())


@pytest.mark.parametrize("augmented", [False, True])
@pytest.mark.parametrize("epoch", [2, 5])
def test_at_most_a_tenth_of_the_demo_is_padding(demo_durations, demo_run, epoch, augmented):
    lengths = demo_durations
    if augmented:
        augmenter = Augmenter(demo_run.augment, demo_run.features.sample_rate_hz, 0, epoch)
        speeds = np.array([augmenter.speed(index) for index in range(len(lengths))])
        assert np.ptp(speeds) > 0.1
        lengths = lengths / speeds
    batches = batching.plan(demo_run.batches, lengths, 0, epoch)
    padded = sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)
    share = (padded - lengths.sum()) / padded
    assert share <= 0.10
    assert batching.padding_share(batches, lengths) == pytest.approx(share)


@pytest.mark.parametrize("name", ["batch_size", "num_buckets"])
def test_wrong_settings_are_named(name):
    with pytest.raises(ValueError, match=f"^{name} must be >= 1. Received: 0$"):
        BatchConfig(**{name: 0})
