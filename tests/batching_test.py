import collections
import itertools
import pathlib
import runpy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds2_tf import batching, config
from ds2_tf.augment import Augmenter
from ds2_tf.batching import BatchConfig
from ds2_tf.corpora import digit_strings

CONFIGS = pathlib.Path(__file__).parents[1] / "configs"


def random_lengths(count, seed=0):
    return np.random.default_rng(seed).integers(30, 1200, count)


def as_lists(batches):
    return [batch.tolist() for batch in batches]


@st.composite
def cases(draw):
    """Few classes, small limits and equal lengths are frequent, empty utterances possible."""
    config = BatchConfig(
        batch_size=draw(st.integers(1, 9)),
        max_frames=draw(st.just(0) | st.integers(1, 600)),
        sorted_epochs=draw(st.integers(-1, 2)),
        num_buckets=draw(st.integers(1, 5)),
    )
    longest = draw(st.sampled_from([3, 250]))
    lengths = draw(st.lists(st.integers(0, longest), min_size=1, max_size=60))
    return config, np.array(lengths), draw(st.integers(0, 3))


def most(config, longest):
    """Returns how many utterances, the longest of so many frames, a batch may hold.

    One without any frame counts like one of a single frame.
    """
    fitting = [
        size
        for size in range(1, config.batch_size + 1)
        if size == 1 or config.max_frames == 0 or size * max(longest, 1) <= config.max_frames
    ]
    return fitting[-1]


def is_full_class(config, lengths, batch):
    """Returns whether a batch holds as many of a class of length as the class's longest allows."""
    limits = np.quantile(lengths, np.arange(1, config.num_buckets) / config.num_buckets)
    classes = np.array([sum(limit <= length for limit in limits) for length in lengths])
    own = set(classes[batch])
    return len(own) == 1 and len(batch) == most(config, lengths[classes == min(own)].max())


@settings(max_examples=40, deadline=None)
@given(cases(), st.integers(0, 2))
def test_a_plan_is_whole_and_its_batches_neither_too_large_nor_too_small(case, seed):
    config, lengths, epoch = case
    batches = batching.plan(config, lengths, seed, epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert 1 <= len(batch) <= config.batch_size
        padded_frames = len(batch) * lengths[batch].max()
        assert not config.max_frames or len(batch) == 1 or padded_frames <= config.max_frames
    # In a sorted epoch, and among what is left over in the others, no batch but the last could
    # take the next utterance, too.
    if 0 <= config.sorted_epochs <= epoch:
        batches = [batch for batch in batches if not is_full_class(config, lengths, batch)]
        batches.sort(key=lambda batch: (lengths[batch].min(), lengths[batch].max()))
    for batch, following in itertools.pairwise(batches):
        assert lengths[batch].max() <= lengths[following].min()
        assert len(batch) + 1 > most(config, lengths[following].min())


@pytest.mark.parametrize("epoch", [0, 3])
@pytest.mark.parametrize("max_frames", [0, 5000])
def test_a_plan_is_the_same_whenever_it_is_asked_for(max_frames, epoch):
    lengths, config = random_lengths(100), BatchConfig(max_frames=max_frames)
    first, second = (batching.plan(config, lengths.copy(), 7, epoch) for _ in range(2))
    assert as_lists(first) == as_lists(second)


@pytest.mark.parametrize("epoch", [0, 1, 7])
@pytest.mark.parametrize(("count", "num_buckets"), [(1, 12), (17, 1), (16, 12), (500, 12)])
def test_without_a_limit_of_frames_one_batch_at_most_is_not_full(epoch, count, num_buckets):
    config = BatchConfig(16, num_buckets=num_buckets)
    sizes = [len(b) for b in batching.plan(config, random_lengths(count), 3, epoch)]
    assert len(sizes) == -(-count // 16)
    assert sorted(sizes)[1:] == [16] * (len(sizes) - 1)


def test_long_utterances_come_in_smaller_batches():
    lengths = np.array([1500, 100, 400, 1000, 200, 700, 300, 300])
    batches = batching.plan(BatchConfig(4, max_frames=1000), lengths, 0, 0)
    assert as_lists(batches) == [[1, 4, 6], [7, 2], [5], [3], [0]]
    whole = batching.plan(BatchConfig(4), lengths, 0, 0)
    assert as_lists(whole) == [[1, 4, 6, 7], [2, 5, 3, 0]]


@pytest.mark.parametrize("lengths", [np.full(50, 250), np.repeat([100, 300], 25)])
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


@pytest.mark.parametrize(("sorted_epochs", "expected"), [(-1, 3), (0, 0), (1, 1), (2, 2)])
def test_how_many_epochs_are_sorted(sorted_epochs, expected):
    lengths = random_lengths(200)
    config = BatchConfig(16, sorted_epochs=sorted_epochs)
    orders = [np.concatenate(batching.plan(config, lengths, 0, epoch)) for epoch in range(3)]
    is_sorted = [bool((np.diff(lengths[order]) >= 0).all()) for order in orders]
    assert is_sorted == [True] * expected + [False] * (3 - expected)


def test_utterances_of_equal_length_keep_their_order_when_sorted():
    batches = batching.plan(BatchConfig(3), np.array([200, 100, 200, 100, 200]), 0, 0)
    assert as_lists(batches) == [[1, 3, 0], [2, 4]]


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
    lengths = random_lengths(1606)
    batches = batching.plan(BatchConfig(), lengths, 0, 1)
    longest = np.array([lengths[batch].max() for batch in batches])
    position = np.arange(len(batches))
    assert abs(np.corrcoef(position, longest)[0, 1]) < 0.3
    short = collections.Counter(position[longest < np.median(longest)] // (len(batches) // 4))
    assert min(short[quarter] for quarter in range(4)) >= 5


def test_the_left_over_come_anywhere():
    """They are put together last, but not shown last."""
    lengths = random_lengths(406)
    found = []
    for epoch in range(1, 6):
        sizes = [len(batch) for batch in batching.plan(BatchConfig(), lengths, 0, epoch)]
        found.append(sizes.index(6))
    assert len(set(found)) > 2
    assert min(found) < len(sizes) / 2


def test_mostly_neighbours_in_length_share_a_batch():
    """What is left over may meet across the limits of the classes: of each, 4 of its 100."""
    lengths = np.random.default_rng(0).permutation(1200)
    limits = np.quantile(lengths, np.arange(1, 12) / 12)
    batches = batching.plan(BatchConfig(), lengths, 0, 1)
    classes = [len(set(np.searchsorted(limits, lengths[batch], side="right"))) for batch in batches]
    assert collections.Counter(classes) == {1: 72, 4: 3}
    for batch, number in zip(batches, classes, strict=True):
        assert np.ptp(lengths[batch]) < 100 * number


def test_padding_share_counts_frames():
    lengths = np.array([2, 4, 3])
    batches = [np.array([0, 1]), np.array([2])]
    assert batching.padding_share(batches, lengths) == pytest.approx(2 / 11)
    assert batching.padding_share([np.array([2])], lengths) == 0
    assert batching.padding_share([], lengths) == 0


@pytest.fixture(scope="module")
def demo_durations(digits_folder):
    recordings = digit_strings.read(digits_folder)
    utterances = digit_strings.splits(recordings, "theo")["train"]
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
    lengths = np.array([demo_run.features.num_frames(round(8000 * s)) for s in lengths])
    assert lengths.min() > 10
    batches = batching.plan(demo_run.batches, lengths, 0, epoch)
    padded = sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)
    share = (padded - lengths.sum()) / padded
    assert share <= 0.10
    assert batching.padding_share(batches, lengths) == pytest.approx(share)


@pytest.mark.parametrize(
    ("name", "least"),
    [("batch_size", 1), ("num_buckets", 1), ("max_frames", 0), ("sorted_epochs", -1)],
)
def test_wrong_settings_are_named(name, least):
    with pytest.raises(ValueError, match=f"^{name} must be >= {least}. Received: {least - 1}$"):
        BatchConfig(**{name: least - 1})
    assert getattr(BatchConfig(**{name: least}), name) == least
