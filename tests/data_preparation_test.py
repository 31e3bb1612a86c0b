import dataclasses
import itertools
import json
import logging
import os

import numpy as np
import pytest
import soundfile
from ml_collections import ConfigDict

from ds2_tf import audio, config, data_preparation, features, manifest, normalization
from ds2_tf.alphabet import Alphabet
from ds2_tf.errors import UserError
from tests.manifest_rows import speech

RATE = 8000
SEE_ALL = (
    "see them all with `ds2 check_data` and train on what its --write_clean writes, or tolerate "
    "reasons by config.data.allow"
)


def settings(**sections):
    base = {
        "features": {"sample_rate_hz": RATE},
        "model": {
            "conv_channels": (2,),
            "conv_kernels": ((3, 3),),
            "conv_strides": ((2, 2),),
        },
    }
    for name, values in sections.items():
        base[name] = base.get(name, {}) | values
    return config.resolve(ConfigDict(base))


class Corpus:
    """A manifest "name.jsonl" with recordings of half a second and more."""

    def __init__(self, folder, name, count, seed):
        self.path = folder / f"{name}.jsonl"
        rows = []
        for i in range(count):
            path = folder / f"{name}{i}.wav"
            seconds = 0.5 + 0.1 * i
            soundfile.write(path, speech(seconds, RATE, seed + i), RATE)
            rows.append(manifest.Utterance((str(path),), seconds, "ab c"))
        manifest.write(self.path, rows)

    def read(self):
        return manifest.read(self.path)

    def replace(self, index, **values):
        """Changes one row."""
        rows = self.read()
        rows[index] = dataclasses.replace(rows[index], **values)
        manifest.write(self.path, rows)


@pytest.fixture
def train(tmp_path):
    return Corpus(tmp_path, "train", 6, seed=0)


@pytest.fixture
def dev(tmp_path):
    return Corpus(tmp_path, "dev", 2, seed=100)


@pytest.fixture
def workdir(tmp_path):
    return tmp_path / "run"


def prepare(run, workdir, train, dev):
    started = (workdir / "config.json").exists()  # as if a step had been done, too
    data_preparation.prepare(run, workdir, train.read(), dev.read(), started)
    return data_preparation.load(workdir)


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


def noise_manifest(folder, name="noise"):
    return Corpus(folder, name, 2, seed=50).path


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


@pytest.mark.parametrize(
    ("section", "values", "difference"),
    [
        ("model", {"rnn_units": 8}, "model.rnn_units: 512, 8"),
        ("training", {"seed": 1}, "training.seed: 0, 1"),
        ("batches", {"batch_size": 4}, "batches.batch_size: 16, 4"),
        ("schedule", {"anneal": 1.5}, "schedule.anneal: 1.2, 1.5"),
        ("augment", {"speed": (0.9, 1.1)}, "augment.speed: (1.0, 1.0), (0.9, 1.1)"),
    ],
)
def test_a_run_goes_on_with_the_settings_it_began_with(
    workdir, train, dev, section, values, difference
):
    prepare(settings(), workdir, train, dev)
    before = (workdir / "config.json").read_bytes()
    with pytest.raises(UserError) as error:
        prepare(settings(**{section: values}), workdir, train, dev)
    assert str(error.value) == (
        f"{workdir}/config.json: this run began with other settings ({difference}); go on with the "
        "same ones or choose a new --workdir"
    )
    assert (workdir / "config.json").read_bytes() == before


@pytest.mark.parametrize(
    ("section", "values"),
    [
        ("training", {"num_epochs": 99}),
        ("training", {"checkpoint_steps": 9, "keep_checkpoints": 9, "log_steps": 9}),
        ("data", {"train": "moved.jsonl", "dev": "moved_dev.jsonl"}),
        ("data", {"max_bad_share": 0.5}),
    ],
)
def test_what_does_not_change_the_weights_may_change(workdir, train, dev, section, values):
    prepare(settings(), workdir, train, dev)
    run = settings(**{section: values})
    prepare(run, workdir, train, dev)
    assert config.load(workdir / "config.json") == run


def test_all_that_changed_is_named_at_once(workdir, train, dev):
    prepare(settings(), workdir, train, dev)
    run = settings(model={"rnn_units": 8}, training={"seed": 1, "num_epochs": 99})
    with pytest.raises(UserError, match=r"\(model.rnn_units: 512, 8; training.seed: 0, 1\)"):
        prepare(run, workdir, train, dev)


def refuses_the_data(run, workdir, train, dev):
    with pytest.raises(UserError) as error:
        data_preparation.prepare(run, workdir, train, dev, (workdir / "config.json").exists())
    assert str(error.value) == (
        f"{workdir}/data.json: this run began with other data; give back the manifests it began "
        "with or choose a new --workdir"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"transcript": "ab"},
        {"duration_seconds": 0.51},
        {"audio_paths": ("other.wav",)},
        {"audio_paths": ("train0.wav", "train1.wav"), "pauses_seconds": (0.1,)},
    ],
)
def test_a_run_goes_on_with_the_data_it_began_with(workdir, train, dev, change):
    run = settings()
    prepare(run, workdir, train, dev)
    rows, dev_rows = train.read(), dev.read()
    refuses_the_data(run, workdir, [dataclasses.replace(rows[0], **change), *rows[1:]], dev_rows)
    refuses_the_data(run, workdir, rows[1:], dev_rows)
    refuses_the_data(run, workdir, [*rows[1:], rows[0]], dev_rows)
    refuses_the_data(run, workdir, rows, dev_rows[:1])


def test_rows_that_move_between_training_and_dev_are_noticed(workdir, train, dev):
    run = settings()
    prepare(run, workdir, train, dev)
    rows, dev_rows = train.read(), dev.read()
    refuses_the_data(run, workdir, rows[:-1], [rows[-1], *dev_rows])
    refuses_the_data(run, workdir, [*rows, dev_rows[0]], dev_rows[1:])


def test_data_may_move_to_another_folder(tmp_path, workdir, train, dev):
    run = settings()
    prepare(run, workdir, train, dev)
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in [*tmp_path.glob("*.wav"), *tmp_path.glob("*.jsonl")]:
        path.rename(moved / path.name)
    rows, dev_rows = manifest.read(moved / "train.jsonl"), manifest.read(moved / "dev.jsonl")
    assert rows[0].audio_path == str(moved / "train0.wav")
    data_preparation.prepare(run, workdir, rows, dev_rows, (workdir / "config.json").exists())


def test_recorded_noise_belongs_to_the_data(tmp_path, workdir, train, dev):
    def run(path):
        return settings(augment={"noise_manifest": str(path)})

    path = noise_manifest(tmp_path)
    prepare(run(path), workdir, train, dev)
    moved = path.rename(tmp_path / "moved.jsonl")
    prepare(run(moved), workdir, train, dev)
    other = noise_manifest(tmp_path, "other")
    refuses_the_data(run(other), workdir, train.read(), dev.read())
    refuses_the_data(settings(), workdir, train.read(), dev.read())


@pytest.mark.parametrize("content", [None, "{", "[]", "{}"])
def test_a_damaged_record_of_the_data_is_named(workdir, train, dev, content):
    run = settings()
    prepare(run, workdir, train, dev)
    path = workdir / "data.json"
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=rf"^{path}: .* choose a new --workdir"):
        prepare(run, workdir, train, dev)


def test_a_call_that_was_killed_is_repeated_whole(workdir, train, dev):
    """config.json comes last: without it nothing counts."""
    run = settings()
    alphabet, statistics = prepare(run, workdir, train, dev)
    (workdir / "config.json").unlink()
    (workdir / "data.json").write_text("half")
    (workdir / "normalization.npz").unlink()
    again, same = prepare(run, workdir, train, dev)
    assert again == alphabet
    np.testing.assert_array_equal(same.mean, statistics.mean)
    assert json.loads((workdir / "data.json").read_text())["utterances"] == 6


def test_before_the_first_step_other_settings_begin_anew(tmp_path, train, dev):
    workdir = tmp_path / "run"
    first, second = settings(training={"seed": 1}), settings(training={"seed": 2})
    for run in (first, second):
        data_preparation.prepare(run, workdir, train.read(), dev.read(), started=False)
        assert config.load(workdir / "config.json") == run


def test_a_folder_that_cannot_be_written_is_named_before_the_data_is_judged(tmp_path, train, dev):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written .Not a directory.; choose a folder"):
        data_preparation.prepare(
            settings(), tmp_path / "file" / "run", train.read(), dev.read(), started=False
        )


def test_a_worker_with_other_settings_or_data_is_told(tmp_path, train, dev):
    workdir = tmp_path / "run"
    data_preparation.prepare(settings(), workdir, train.read(), dev.read(), started=False)
    same = (workdir, train.read(), dev.read())
    data_preparation.require_same_as_chief(settings(), *same)
    other = settings(schedule={"learning_rate": 0.1}, training={"num_epochs": 3})
    with pytest.raises(UserError) as caught:
        data_preparation.require_same_as_chief(other, *same)
    assert "the chief trains with other settings (chief's, this worker's: " in str(caught.value)
    assert "schedule.learning_rate: 0.0003, 0.1; training.num_epochs: 20, 3" in str(caught.value)
    with pytest.raises(UserError, match="this run began with other data"):
        data_preparation.require_same_as_chief(settings(), workdir, train.read()[1:], dev.read())
    with pytest.raises(UserError, match="all workers must share one"):
        data_preparation.require_same_as_chief(settings(), tmp_path / "other", *same[1:])
