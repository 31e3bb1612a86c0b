import itertools
import logging
import os

import numpy as np
import pytest

from ds2_tf import audio, config, data_preparation, features, normalization
from ds2_tf.alphabet import Alphabet
from ds2_tf.errors import UserError
from tests.prepared_runs import RATE, noise_manifest, prepare, settings

SEE_ALL = (
    "see them all with `ds2 check_data` and train on what its --write_clean writes, or tolerate "
    "reasons by config.data.allow"
)


def statistics_of(utterances):
    """Mean and deviation of each bin over all frames, from one long list of them."""
    frames = []
    for utterance in utterances:
        samples = audio.load_utterance(utterance, RATE)
        found, _ = features.log_spectrogram(
            features.FeatureConfig(RATE), samples[np.newaxis], np.array([len(samples)])
        )
        frames.append(found[0].numpy())
    together = np.concatenate(frames)
    floor = normalization.STANDARD_DEVIATION_FLOOR
    return together.mean(axis=0), np.maximum(together.std(axis=0), floor)


def test_the_first_call_fills_the_workdir(workdir, train, dev):
    run = settings(data={"train": str(train.path), "dev": str(dev.path)})
    alphabet, statistics = prepare(run, workdir, train, dev)
    assert sorted(os.listdir(workdir)) == [
        "alphabet.json",
        "config.json",
        "data.json",
        "normalization.npz",
    ]
    assert config.load(workdir / "config.json") == run
    assert Alphabet.load(workdir / "alphabet.json") == alphabet
    assert alphabet.num_labels == 29
    saved = normalization.load(workdir / "normalization.npz")
    np.testing.assert_array_equal(saved.mean, statistics.mean)
    np.testing.assert_array_equal(saved.standard_deviation, statistics.standard_deviation)


def test_statistics_are_those_of_the_training_frames(workdir, train, dev):
    _, statistics = prepare(settings(), workdir, train, dev)
    mean, deviation = statistics_of(train.read())
    np.testing.assert_allclose(statistics.mean, mean, atol=1e-4)
    np.testing.assert_allclose(statistics.standard_deviation, deviation, atol=1e-4)


def test_statistics_may_come_from_some_random_utterances(tmp_path, train, dev):
    pairs = set()
    for seed in range(4):
        run = settings(data={"normalization_utterances": 2}, training={"seed": seed})
        means = []
        for attempt in range(2):
            _, statistics = prepare(run, tmp_path / f"{seed}-{attempt}", train, dev)
            means.append(statistics.mean)
        np.testing.assert_array_equal(*means)
        pairs |= {
            pair
            for pair in itertools.combinations(range(6), 2)
            if np.allclose(statistics_of([train.read()[i] for i in pair])[0], means[0], atol=1e-4)
        }
    assert len(pairs) > 1


def test_an_alphabet_of_the_training_transcripts(workdir, train, dev):
    train.replace(0, transcript="Züge")
    alphabet, _ = prepare(settings(alphabet={"symbols": ""}), workdir, train, dev)
    assert alphabet.symbols == (" ", "a", "b", "c", "e", "g", "z", "ü")


def test_rare_characters_are_logged_and_trained_as_unknown(workdir, train, dev, caplog):
    train.replace(0, transcript="Züge 3")
    dev.replace(1, transcript="größe")
    run = settings(alphabet={"symbols": "", "kind": "bigram", "coverage": 0.8})
    with caplog.at_level(logging.INFO, logger="absl"):
        alphabet, _ = prepare(run, workdir, train, dev)
    # 26 characters: space x6, a b c x5 each, five others once: 21 are 80.8 %.
    assert alphabet.symbols == (" ", "a", "b", "c", "\ufffd", "ab")
    assert "alphabet: 5 characters and 1 pairs of them" in caplog.text
    assert (
        "characters trained as U+FFFD: 5 kinds, 19.231 % of all characters: '3' x1, 'e' x1, "
        "'g' x1, 'z' x1, 'ü' (U+00FC) x1\n"
    ) in caplog.text


def test_of_the_rare_characters_the_ten_most_frequent_are_logged(workdir, train, dev, caplog):
    train.replace(0, transcript="defghijklmnn")
    run = settings(alphabet={"symbols": "", "coverage": 0.62})
    with caplog.at_level(logging.INFO, logger="absl"):
        alphabet, _ = prepare(run, workdir, train, dev)
    assert alphabet.symbols == (" ", "a", "b", "c", "\ufffd")
    assert ": 11 kinds, 37.500 % of all characters: 'n' x2, 'd' x1, " in caplog.text
    assert "'l' x1 and 1 more" in caplog.text


def test_without_coverage_nothing_is_written_as_unknown(workdir, train, dev, caplog):
    with caplog.at_level(logging.INFO, logger="absl"):
        prepare(settings(), workdir, train, dev)
    assert "alphabet: 28 characters and 0 pairs of them" in caplog.text
    assert "U+FFFD" not in caplog.text


def test_a_later_call_reads_what_the_first_wrote(workdir, train, dev, monkeypatch):
    run = settings()
    first_alphabet, first = prepare(run, workdir, train, dev)
    monkeypatch.setattr(data_preparation.data_check, "check", None)
    monkeypatch.setattr(data_preparation.normalization, "measure", None)
    alphabet, statistics = prepare(run, workdir, train, dev)
    assert alphabet == first_alphabet
    np.testing.assert_array_equal(statistics.mean, first.mean)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            {"transcript": "aab" * 9},
            "36 frames needed (27 labels + 9 repeats), 30 there; check that text and recording "
            "belong together, or lower the stride",
        ),
        (
            {"transcript": "größe"},
            "'ß' (U+00DF) x1, 'ö' (U+00F6) x1; write them with the alphabet's characters, or add "
            "them to the alphabet",
        ),
        ({"transcript": " "}, "the transcript holds no characters; write down what is said or "),
        ({"duration_seconds": 9.0}, "the manifest says 9.00 s, the audio lasts 0.60 s; correct "),
    ],
)
def test_a_bad_row_stops_before_training(workdir, train, dev, change, problem):
    train.replace(1, **change)
    row = train.read()[1]
    with pytest.raises(UserError) as error:
        prepare(settings(), workdir, train, dev)
    message = str(error.value)
    assert message.startswith(f"{train.path}:2: {row.audio_path}: {problem}")
    assert message.endswith(f". Rows that cannot be trained on: 1; {SEE_ALL}")
    assert "\n" not in message
    assert not workdir.exists()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "no such file; check the path"),
        (b"", "is an empty file; "),
        (b"<!DOCTYPE html><p>404", "is an HTML or XML page, not audio; download the recording "),
        (b"RIFF\x04\x00\x00\x00WAVE", ""),
    ],
)
def test_a_bad_recording_stops_before_training_with_its_name(
    tmp_path, workdir, train, dev, content, problem
):
    path = tmp_path / "dev1.wav"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    train.replace(3, transcript="")
    dev_message = f"{dev.path}:2: {path}: {problem}"
    with pytest.raises(UserError) as error:
        prepare(settings(), workdir, train, dev)
    assert str(error.value).startswith(f"{train.path}:4: ")
    assert str(error.value).endswith(f". Rows that cannot be trained on: 2; {SEE_ALL}")
    train.replace(3, transcript="ab c")
    with pytest.raises(UserError) as error:
        prepare(settings(), workdir, train, dev)
    assert str(error.value).startswith(dev_message)
    assert not workdir.exists()


def test_a_misspelt_key_stops_before_training(tmp_path, workdir, train, dev):
    path = tmp_path / "train.jsonl"
    path.write_text(path.read_text().replace('"duration"', '"durration"', 1))
    with pytest.raises(UserError) as error:
        prepare(settings(), workdir, train, dev)
    assert str(error.value) == (
        f"{path}:1: unknown key 'durration', did you mean 'duration'?; rename it"
    )
    assert not workdir.exists()


def test_tolerated_reasons_pass(workdir, train, dev):
    train.replace(1, transcript="")
    run = settings(data={"allow": ("transcript_empty",)})
    prepare(run, workdir, train, dev)
    assert (workdir / "config.json").exists()


def test_an_unknown_reason_is_named(workdir, train, dev):
    run = settings(data={"allow": ("cliped",)})
    with pytest.raises(UserError, match="'cliped' is not a reason; did you mean 'clipped'?"):
        prepare(run, workdir, train, dev)
    assert not workdir.exists()


def test_recorded_noise_is_looked_at_before_training(tmp_path, workdir, train, dev):
    path = noise_manifest(tmp_path)
    run = settings(augment={"noise_manifest": str(path)})
    (tmp_path / "noise1.wav").unlink()
    with pytest.raises(UserError) as error:
        prepare(run, workdir, train, dev)
    assert str(error.value) == f"{path}: {tmp_path}/noise1.wav: no such file; check the path"
    assert not workdir.exists()
    noise_manifest(tmp_path)
    prepare(run, workdir, train, dev)
