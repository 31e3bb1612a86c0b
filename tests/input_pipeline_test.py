import dataclasses
import itertools
import logging
import shutil

import keras
import numpy as np
import pytest
import soundfile
import tensorflow as tf

from ds2_tf import alphabet, audio, batching, features, manifest
from ds2_tf.augment import AugmentConfig, Augmenter
from ds2_tf.batching import BatchConfig
from ds2_tf.corpora import digit_strings
from ds2_tf.errors import UserError
from ds2_tf.input_pipeline import BATCH_SIGNATURE, PADDING_ROW, InputPipeline, pad
from ds2_tf.manifest import Utterance
from ds2_tf.model import DeepSpeech2, ModelConfig
from ds2_tf.normalization import Normalization
from ds2_tf.ops.ctc import ctc_loss

RATE = 8000
ENGLISH = alphabet.english()
FEATURES = features.FeatureConfig(RATE, log_floor=1e-3)
MODEL = ModelConfig(
    conv_channels=(2,), conv_kernels=((5, 7),), conv_strides=((2, 2),), rnn_layers=1, rnn_units=4
)
NORMALIZATION = Normalization(
    np.linspace(-5, -3, 81).astype(np.float32), np.linspace(1, 2, 81).astype(np.float32)
)
EVERYTHING = AugmentConfig(speed=(0.8, 1.25), channel_db=6.0, noise_share=0.6)
BATCH_SIZE = 8


@pytest.fixture(scope="module")
def utterances(digits_folder):
    """37 strings of digits; those of several are joined from their recordings, with pauses."""
    known = [r for r in digit_strings.read(digits_folder) if r.take < 20]
    strings = digit_strings.splits(known, "theo")["train"][:37]
    assert {len(u.audio_paths) for u in strings} == set(range(1, 8))
    return [dataclasses.replace(u, line=i + 1, manifest="m.jsonl") for i, u in enumerate(strings)]


def make(utterances, symbols=ENGLISH, **options):
    options.setdefault("batch_config", BatchConfig(BATCH_SIZE, num_buckets=2))
    return InputPipeline(utterances, symbols, FEATURES, MODEL, NORMALIZATION, **options)


def read(pipeline, epoch=0, skip_batches=0):
    return list(pipeline.epoch(epoch, skip_batches).dataset.as_numpy_iterator())


def features_alone(samples):
    spectrogram, length = features.log_spectrogram(
        FEATURES, samples[np.newaxis], tf.constant([len(samples)])
    )
    return NORMALIZATION(spectrogram, length)[0].numpy()


def assert_same_features(found, expected):
    """Rounding shows most in the bins just above the floor, far below the loudest of the frame."""
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.mean(np.abs(found - expected)) < 1e-6


def rows(batches):
    """Yields (index, features, feature_length, labels, label_length) of every row."""
    for batch in batches:
        yield from zip(*(batch[key] for key in BATCH_SIGNATURE), strict=True)


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


def write_tone(path, seconds):
    samples = 0.3 * np.sin(2 * np.pi * 500 * np.arange(round(seconds * RATE)) / RATE)
    soundfile.write(path, samples, RATE)
    return str(path)


# 21 frames are needed (17 labels, 4 repeats), which 0.42 s have at stride 2.
TIGHT = "aab bccdd eefghij"


def frames_needed(text):
    return len(text) + sum(a == b for a, b in itertools.pairwise(text))


@pytest.mark.parametrize("claimed_seconds", [0.43, 0.52])
def test_speed_never_makes_a_transcript_infeasible(tmp_path, claimed_seconds):
    """Also when the manifest claims more audio than there is, as far as the data check lets it."""
    path = write_tone(tmp_path / "short.wav", 0.43)
    texts = [TIGHT, TIGHT[:-1], TIGHT[:-2], "aab", ""]
    utterances = [Utterance((path,), claimed_seconds, text) for text in texts]
    frames_before = 1 + (round(0.43 * RATE) - 160) // 80
    assert (frames_before + 1) // 2 == frames_needed(TIGHT)
    num_changed = 0
    for speed in (1.02, 1.1, 1.25):
        (batch,) = read(make(utterances, augment_config=AugmentConfig(speed=(speed, speed))))
        for index, _, length, _, _ in rows([batch]):
            assert (length + 1) // 2 >= frames_needed(texts[index])
            faster = 1 + (round(0.43 * RATE / speed) - 160) // 80
            fits = (faster + 1) // 2 >= frames_needed(texts[index])
            assert length == (faster if fits else frames_before)
            num_changed += length != frames_before
    assert num_changed >= 6


def test_slower_audio_is_never_held_back(tmp_path):
    path = write_tone(tmp_path / "short.wav", 0.43)
    slow = AugmentConfig(speed=(0.8, 0.8))
    (batch,) = read(make([Utterance((path,), 0.43, TIGHT)], augment_config=slow))
    assert batch["feature_lengths"].tolist() == [1 + (4300 - 160) // 80]


def test_a_bigram_needs_one_frame(tmp_path):
    """34 letters fit the 21 frames as 17 pairs, and the 17 that 25 % more speed leaves."""
    text = "abcdefghijklmnopq" * 2
    path = write_tone(tmp_path / "short.wav", 0.43)
    pairs = alphabet.from_transcripts([text], kind="bigram")
    fast = AugmentConfig(speed=(1.25, 1.25))
    for symbols, num_labels, seconds in ((pairs, 17, 0.43 / 1.25), (ENGLISH, 34, 0.43)):
        pipeline = make([Utterance((path,), 0.43, text)], symbols, augment_config=fast)
        (batch,) = read(pipeline)
        assert batch["feature_lengths"].tolist() == [1 + (round(seconds * RATE) - 160) // 80]
        assert batch["label_lengths"].tolist() == [num_labels]
        assert symbols.decode(batch["labels"][0].tolist()) == text


@pytest.fixture
def tones(tmp_path):
    """Ten utterances of a file each, the shortest first, in the lines of a manifest."""
    paths = [write_tone(tmp_path / f"{i}.wav", 0.5 + 0.1 * i) for i in range(10)]
    path = tmp_path / "m.jsonl"
    manifest.write(path, [Utterance((p,), 0.5 + 0.1 * i, "aa b") for i, p in enumerate(paths)])
    return manifest.read(path)


def test_a_recording_that_fails_later_is_counted_named_logged_and_left_out(tones, tmp_path, caplog):
    pipeline = make(tones, batch_config=BatchConfig(5), max_bad_share=0.2)
    read(pipeline)
    assert not pipeline.bad_audio.messages
    (tmp_path / "1.wav").unlink()
    (tmp_path / "7.wav").write_text("<html>moved</html>")
    missing = f"{tmp_path}/m.jsonl:2: {tmp_path}/1.wav: no such file; check the path"
    html = (
        f"{tmp_path}/m.jsonl:8: {tmp_path}/7.wav: is an HTML or XML page, not audio; download the "
        "recording itself"
    )
    with caplog.at_level(logging.ERROR):
        for _ in range(2):  # A second epoch neither counts nor logs them again.
            indices = [batch["utterance_index"].tolist() for batch in read(pipeline)]
            assert indices == [[0, 2, 3, 4, PADDING_ROW], [5, 6, 8, 9, PADDING_ROW]]
    assert pipeline.bad_audio.messages == {1: missing, 7: html}
    counts, messages = zip(
        *(record.getMessage().split(" so far: ") for record in caplog.records), strict=True
    )
    assert sorted(counts) == ["left out, 1", "left out, 2"]
    assert sorted(messages) == sorted([missing, html])
    pipeline.bad_audio.check()  # 2 of 10 is what max_bad_share=0.2 allows.

    (tmp_path / "3.wav").unlink()
    read(pipeline)
    with pytest.raises(UserError) as error:
        pipeline.bad_audio.check()
    assert str(error.value) == (
        "3 of 10 recordings cannot be read, more than max_bad_share=0.2 allows; the latest: "
        f"{tmp_path}/m.jsonl:4: {tmp_path}/3.wav: no such file; check the path"
    )


def test_by_default_one_bad_recording_is_too_many(tones, tmp_path):
    pipeline = make(tones)
    (tmp_path / "9.wav").unlink()
    read(pipeline)
    with pytest.raises(UserError, match=r"^1 of 10 .* max_bad_share=0 allows; .*m.jsonl:10: "):
        pipeline.bad_audio.check()


@pytest.mark.parametrize("num_replicas", [1, 3])
def test_a_batch_of_which_nothing_is_left(tones, tmp_path, num_replicas):
    """It keeps its rows, and a training step on it changes nothing and is finite."""
    for i in range(5):
        (tmp_path / f"{i}.wav").unlink()
    pipeline = make(
        tones, batch_config=BatchConfig(5), max_bad_share=0.5, num_replicas=num_replicas
    )
    empty, full = read(pipeline)
    num_rows = {1: 5, 3: 6}[num_replicas]
    assert full["utterance_index"].tolist() == [5, 6, 7, 8, 9] + [PADDING_ROW] * (num_rows - 5)
    assert empty["utterance_index"].tolist() == [PADDING_ROW] * num_rows
    assert empty["feature_lengths"].tolist() == [0] * num_rows
    assert empty["label_lengths"].tolist() == [0] * num_rows
    assert not empty["features"].any()
    assert empty["labels"].shape == (num_rows, 0)

    keras.utils.set_random_seed(0)
    network = DeepSpeech2(MODEL, 81, ENGLISH.num_labels)
    averages = [v.numpy() for v in network.non_trainable_variables]
    with tf.GradientTape() as tape:
        outputs = network(
            {key: empty[key] for key in ("features", "feature_lengths")}, training=True
        )
        loss = tf.reduce_sum(
            ctc_loss(
                outputs["logits"], outputs["logit_lengths"], empty["labels"], empty["label_lengths"]
            )
        )
    gradients = tape.gradient(loss, network.trainable_variables)
    assert loss == 0
    assert all(not np.any(gradient) for gradient in gradients if gradient is not None)
    for variable, before in zip(network.non_trainable_variables, averages, strict=True):
        np.testing.assert_array_equal(variable.numpy(), before)


def test_a_part_that_fails_fails_the_whole_utterance(tones, tmp_path, digits_folder):
    part = tmp_path / "part.flac"
    shutil.copy(next(digits_folder.glob("*.flac")), part)
    joined = Utterance((tones[0].audio_path, str(part)), 1.0, "ab", (0.2,), line=7, manifest="j")
    pipeline = make([joined, tones[1]], max_bad_share=1.0)
    part.write_bytes(part.read_bytes()[:-500])
    (batch,) = read(pipeline)
    assert batch["utterance_index"].tolist() == [1, PADDING_ROW]
    assert list(pipeline.bad_audio.messages) == [0]
    assert pipeline.bad_audio.messages[0].startswith(f"j:7: {part}: is cut off or damaged")


def test_recorded_noise_that_fails_later_counts_as_well(tones, tmp_path):
    noise = tmp_path / "noise.jsonl"
    manifest.write(noise, [Utterance((str(tmp_path / "gone.wav"),), 1.0, "")])
    noisy = AugmentConfig(noise_share=1.0, noise_manifest=str(noise))
    pipeline = make(tones[:1], augment_config=noisy, max_bad_share=0.0)
    read(pipeline)
    with pytest.raises(UserError, match=r"noise.jsonl:1: .*gone.wav: no such file; check the path"):
        pipeline.bad_audio.check()


def test_characters_outside_the_alphabet_are_named_with_their_row(tones):
    tones[3] = dataclasses.replace(tones[3], transcript="größe 5")
    with pytest.raises(UserError) as error:
        make(tones)
    assert str(error.value) == (
        f"{tones[3].manifest}:4: characters outside the alphabet: '5' x1, 'ß' (U+00DF) x1, "
        "'ö' (U+00F6) x1; write them with the alphabet's, or remove the row"
    )


def test_rows_are_named_for_messages(tones, tmp_path):
    named = make(tones).name_rows([3, PADDING_ROW, 0])
    assert named == f"{tmp_path}/m.jsonl:4 {tmp_path}/3.wav; {tmp_path}/m.jsonl:1 {tmp_path}/0.wav"


def test_messages_name_four_rows_at_most(tones):
    named = make(tones).name_rows([0, 1, PADDING_ROW, 2, 3]).split("; ")
    assert [row.split("/")[-1] for row in named] == ["0.wav", "1.wav", "2.wav", "3.wav"]
    assert make(tones).name_rows(range(10)).split("; ") == [*named, "and 6 more"]


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
