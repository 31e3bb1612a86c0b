import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf

from ds2_tf import audio, batching
from ds2_tf.augment import AugmentConfig, Augmenter
from ds2_tf.batching import BatchConfig
from ds2_tf.corpora import digit_strings
from ds2_tf.input_pipeline import BATCH_SIGNATURE, PADDING_ROW, pad
from tests.pipelines import (
    BATCH_SIZE,
    ENGLISH,
    EVERYTHING,
    RATE,
    assert_same_features,
    features_alone,
    make,
    read,
    rows,
)


@pytest.fixture(scope="module")
def utterances(digits_folder):
    """37 strings of digits; those of several are joined from their recordings, with pauses."""
    known = [r for r in digit_strings.read(digits_folder) if r.take < 20]
    strings = digit_strings.splits(known, "theo")["train"][:37]
    assert {len(u.audio_paths) for u in strings} == set(range(1, 8))
    return [dataclasses.replace(u, line=i + 1, manifest="m.jsonl") for i, u in enumerate(strings)]


def test_batches_are_as_the_signature_says(utterances):
    pipeline = make(utterances)
    spec = pipeline.epoch(0).dataset.element_spec
    assert all(BATCH_SIGNATURE[key].is_compatible_with(spec[key]) for key in BATCH_SIGNATURE)
    batches = read(pipeline)
    assert [len(batch["labels"]) for batch in batches] == [8, 8, 8, 8, 5]
    for batch in batches:
        assert list(batch) == list(BATCH_SIGNATURE)
        for key, value in batch.items():
            assert BATCH_SIGNATURE[key].is_compatible_with(tf.constant(value)), key
        width = batch["feature_lengths"].max()
        assert batch["features"].shape == (len(batch["labels"]), width, 81)
        assert batch["labels"].shape[1] == batch["label_lengths"].max()
    for _, frames, length, labels, label_length in rows(batches):
        assert not frames[length:].any()
        assert not labels[label_length:].any()


@pytest.mark.parametrize("epoch", [0, 1])
def test_every_utterance_has_its_own_features_and_labels(utterances, epoch):
    found = []
    for index, frames, length, labels, label_length in rows(read(make(utterances), epoch)):
        samples = audio.load_utterance(utterances[index], RATE)
        assert length == 1 + (len(samples) - 160) // 80
        assert_same_features(frames[:length], features_alone(samples))
        assert ENGLISH.decode(labels[:label_length].tolist()) == utterances[index].transcript
        found.append(index)
    assert sorted(found) == list(range(len(utterances)))


def test_audio_is_changed_as_the_augmenter_says(utterances):
    pipeline = make(utterances, augment_config=EVERYTHING, seed=4)
    augmenter = Augmenter(EVERYTHING, RATE, 4, 2)
    for index, frames, length, _, _ in rows(read(pipeline, 2)):
        samples = audio.load_utterance(utterances[index], RATE)
        samples = augmenter.change_speed(samples, augmenter.speed(index))
        samples = augmenter.add_noise(augmenter.change_channel(samples, index), index)
        assert length == 1 + (len(samples) - 160) // 80
        assert_same_features(frames[:length], features_alone(samples))


@pytest.mark.parametrize("epoch", [0, 3])
def test_batches_follow_the_plan_for_the_changed_lengths(utterances, epoch):
    pipeline = make(utterances, augment_config=EVERYTHING, seed=4)
    augmenter = Augmenter(EVERYTHING, RATE, 4, epoch)
    seconds = [u.duration_seconds / augmenter.speed(i) for i, u in enumerate(utterances)]
    lengths = np.array([1 + (round(s * RATE) - 160) // 80 for s in seconds])
    plan = batching.plan(BatchConfig(BATCH_SIZE, num_buckets=2), lengths, 4, epoch)
    whole = pipeline.epoch(epoch)
    assert whole.num_batches == len(plan)
    assert whole.padding_share == pytest.approx(batching.padding_share(plan, lengths))
    indices = [batch["utterance_index"].tolist() for batch in whole.dataset.as_numpy_iterator()]
    assert indices == [batch.tolist() for batch in plan]
    if epoch == 0:
        frames = np.concatenate([batch["feature_lengths"] for batch in read(pipeline)])
        assert (np.diff(frames) >= 0).all()


@pytest.mark.parametrize(("epoch", "skip_batches"), [(0, 2), (1, 1), (1, 5)])
def test_after_skipping_the_rest_is_the_same_bit_for_bit(utterances, epoch, skip_batches):
    whole = read(make(utterances, augment_config=EVERYTHING, seed=1), epoch)
    assert len(whole) == 5
    resumed = make(utterances, augment_config=EVERYTHING, seed=1)
    rest = read(resumed, epoch, skip_batches)
    assert len(rest) == len(whole) - skip_batches
    for batch, expected in zip(rest, whole[skip_batches:], strict=True):
        for key in BATCH_SIGNATURE:
            assert batch[key].tobytes() == expected[key].tobytes(), key


def test_epochs_and_seeds_bring_other_audio(utterances):
    config = AugmentConfig(noise_share=1.0)
    found = []
    for epoch, seed in [(0, 0), (1, 0), (0, 1)]:
        (batch,) = read(make(utterances[:1], augment_config=config, seed=seed), epoch)
        found.append(batch["features"])
    for one, other in itertools.combinations(found, 2):
        assert np.abs(one - other).max() > 0.1


@pytest.mark.parametrize("num_replicas", [1, 2, 3])
def test_batches_are_filled_up_for_the_replicas(utterances, num_replicas):
    batches = read(make(utterances, num_replicas=num_replicas))
    for batch in batches:
        size = len(batch["utterance_index"])
        real = np.count_nonzero(batch["utterance_index"] != PADDING_ROW)
        assert size % num_replicas == 0
        assert size - real < num_replicas
    for index, frames, length, labels, label_length in rows(batches):
        if index == PADDING_ROW:
            assert length == label_length == 0
            assert not frames.any()
            assert not labels.any()
    indices = np.concatenate([batch["utterance_index"] for batch in batches])
    assert sorted(indices[indices != PADDING_ROW].tolist()) == list(range(len(utterances)))


@pytest.mark.parametrize(
    ("num_workers", "num_replicas", "epoch"), [(2, 2, 0), (2, 4, 1), (3, 3, 1)]
)
def test_workers_share_the_rows_of_each_batch(utterances, num_workers, num_replicas, epoch):
    """Together they hold what one process would, and each of them equally many rows."""
    options = {"augment_config": EVERYTHING, "seed": 3, "num_replicas": num_replicas}
    utterances = utterances[:11]
    expected = make(utterances, **options).epoch(epoch)
    epochs = [
        make(utterances, **options, worker=worker, num_workers=num_workers).epoch(epoch)
        for worker in range(num_workers)
    ]
    for other in epochs:
        assert other.num_rows == expected.num_rows
        assert other.num_frames == expected.num_frames
        assert other.padding_share == expected.padding_share
    datasets = [other.dataset.as_numpy_iterator() for other in epochs]
    batches = expected.dataset.as_numpy_iterator()
    for number, (whole, *parts) in enumerate(zip(batches, *datasets, strict=True)):
        sizes = {len(part["utterance_index"]) for part in parts}
        assert sizes == {expected.num_rows[number] * num_replicas // num_workers}
        found = [row for part in parts for row in rows([part])]
        for row, other in zip(found, rows([whole]), strict=True):
            index, frames, length, labels, label_length = row
            assert index == other[0]
            assert (length, label_length) == (other[2], other[4])
            np.testing.assert_array_equal(labels[:label_length], other[3][:label_length])
            assert not frames[length:].any()
            if index != PADDING_ROW:
                assert_same_features(frames[:length], other[1][:length])


def test_a_worker_without_any_utterance_has_rows_all_the_same(utterances):
    """CASES 7: else it would end before the others, and they would wait for it."""
    for worker, expected in ((0, [[0]]), (1, [[PADDING_ROW]])):
        pipeline = make(utterances[:1], num_replicas=2, worker=worker, num_workers=2)
        (batch,) = read(pipeline)
        assert [batch["utterance_index"].tolist()] == expected
        assert batch["features"].shape[0] == 1


def test_a_worker_whose_recording_fails_keeps_its_rows(tones, tmp_path):
    for i in (0, 1, 7):
        (tmp_path / f"{i}.wav").unlink()
    found = []
    for worker in range(2):
        options = {"num_replicas": 2, "num_workers": 2, "worker": worker}
        pipeline = make(tones, batch_config=BatchConfig(4), max_bad_share=1.0, **options)
        found.append([batch["utterance_index"].tolist() for batch in read(pipeline)])
        assert sorted(pipeline.bad_audio.messages) == ([0, 1] if worker == 0 else [7])
    none = PADDING_ROW
    assert found == [[[none, none], [4, 5], [8]], [[2, 3], [6, none], [9]]]


@pytest.mark.parametrize(
    ("batch_config", "num_replicas"),
    [
        (BatchConfig(8), 1),
        (BatchConfig(8, max_frames=700), 1),
        (BatchConfig(8, max_frames=700), 3),
        (BatchConfig(5, sorted_epochs=0, num_buckets=2), 2),
    ],
)
def test_an_epoch_tells_the_sizes_of_its_batches(utterances, batch_config, num_replicas):
    pipeline = make(
        utterances[:20],
        batch_config=batch_config,
        augment_config=EVERYTHING,
        num_replicas=num_replicas,
    )
    epoch = pipeline.epoch(0)
    shapes = [batch["features"].shape[:2] for batch in epoch.dataset.as_numpy_iterator()]
    num_rows, num_frames = zip(*shapes, strict=True)
    assert num_rows == tuple(rows * num_replicas for rows in epoch.num_rows)
    # Resampling and pauses may round a sample more or less than the plan.
    np.testing.assert_allclose(num_frames, epoch.num_frames, atol=1)
    assert epoch.num_batches == len(shapes)
    if batch_config.max_frames:
        assert len(set(num_rows)) > 1
        for rows, frames in zip(num_rows, epoch.num_frames, strict=True):
            # Rows that only fill up the replicas come on top.
            least = rows - num_replicas + 1
            assert least * frames <= batch_config.max_frames or least == 1
    rest = pipeline.epoch(0, skip_batches=2)
    assert (rest.num_rows, rest.num_frames) == (epoch.num_rows, epoch.num_frames)


def test_the_planned_frames_are_those_of_unchanged_audio(tones):
    epoch = make(tones, batch_config=BatchConfig(3)).epoch(0)
    found = [batch["features"].shape[1] for batch in epoch.dataset.as_numpy_iterator()]
    assert found == epoch.num_frames == [1 + (8 * ms - 160) // 80 for ms in (700, 1000, 1300, 1400)]


def test_pad():
    padded, lengths = pad([np.array([1, 2]), np.array([]), np.array([3])], np.int32)
    np.testing.assert_array_equal(padded, [[1, 2], [0, 0], [3, 0]])
    np.testing.assert_array_equal(lengths, [2, 0, 1])
    assert padded.dtype == lengths.dtype == np.int32
    padded, lengths = pad([np.ones(2)], np.float32, min_width=4)
    np.testing.assert_array_equal(padded, [[1, 1, 0, 0]])
    np.testing.assert_array_equal(lengths, [2])
    padded, lengths = pad([], np.float32)
    assert padded.shape == (0, 0)
    assert lengths.shape == (0,)
