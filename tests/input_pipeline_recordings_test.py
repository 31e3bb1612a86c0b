"""Recordings that are tight for their transcript, or that fail while training goes on."""

import dataclasses
import itertools
import logging
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from ds2_tf import alphabet, manifest
from ds2_tf.augment import AugmentConfig
from ds2_tf.batching import BatchConfig
from ds2_tf.errors import UserError
from ds2_tf.input_pipeline import PADDING_ROW
from ds2_tf.manifest import Utterance
from ds2_tf.model import DeepSpeech2
from ds2_tf.ops.ctc import ctc_loss
from tests.pipelines import ENGLISH, MODEL, RATE, make, read, rows, write_tone

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
