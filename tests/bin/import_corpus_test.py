"""The program import_corpus as a user meets it."""

import json
import subprocess
import sys

import numpy as np
import pytest
import soundfile

from ds2_tf import manifest


def run(*arguments: str, folder) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "ds2_tf.bin.import_corpus", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def rows(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def folder(tmp_path):
    """A LibriSpeech tree of two speakers, and a folder of manifests of three."""
    for identifier in ("84-1-0000", "84-1-0001", "777-2-0000"):
        speaker, chapter, _ = identifier.split("-")
        place = tmp_path / "LibriSpeech/dev-clean" / speaker / chapter
        place.mkdir(parents=True, exist_ok=True)
        samples = np.random.default_rng(0).normal(0, 0.1, 8000).clip(-1, 1)
        soundfile.write(place / f"{identifier}.flac", samples, 16000)
        with open(place / f"{speaker}-{chapter}.trans.txt", "a") as file:
            file.write(f"{identifier} SOME WORDS\n")
    source = tmp_path / "source"
    source.mkdir()
    with open(source / "manifest.jsonl", "w") as file:
        for i, speaker in enumerate(("ann", "bob", "cleo", "ann")):
            row = {"audio_filepath": f"a/{i}.wav", "duration": 900.0, "text": "é"}
            file.write(json.dumps(row | {"speaker": speaker, "take": i}) + "\n")
    return tmp_path


def test_librispeech_becomes_a_manifest_a_subset(folder):
    done = run("librispeech", "LibriSpeech", "out", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "out/dev-clean.jsonl: 3 rows, 0.00 h, 2 speakers\n"
    assert rows(folder / "out/dev-clean.jsonl")[0] == {
        "audio_filepath": f"{folder}/LibriSpeech/dev-clean/777/2/777-2-0000.flac",
        "duration": 0.5,
        "text": "SOME WORDS",
        "speaker": "777",
        "chapter": "2",
    }


def test_skipped_items_are_named_and_make_the_exit_status_1(folder):
    gone = folder / "LibriSpeech/dev-clean/84/1/84-1-0001.flac"
    gone.unlink()
    done = run("librispeech", "LibriSpeech", "out", folder=folder)
    assert done.returncode == 1
    assert done.stdout == "out/dev-clean.jsonl: 2 rows, 0.00 h, 2 speakers\n"
    assert done.stderr == (
        f"skipped: transcript without audio: 1: {gone.parent}/84-1.trans.txt:2 (84-1-0001); all "
        "are listed in out/skipped.tsv\n"
    )
    assert (folder / "out/skipped.tsv").read_text().count("\n") == 1


def test_manifests_are_divided_by_speaker(folder):
    done = run(
        "manifests", "source", "out", "--dev_speakers=bob", "--test_speakers=cleo", folder=folder
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == [
        "out/dev.jsonl: 1 rows, 0.25 h, 1 speakers",
        "out/test.jsonl: 1 rows, 0.25 h, 1 speakers",
        "out/train.jsonl: 2 rows, 0.50 h, 1 speakers",
    ]
    assert rows(folder / "out/dev.jsonl") == [
        {
            "audio_filepath": f"{folder}/source/a/1.wav",
            "duration": 900.0,
            "text": "é",
            "speaker": "bob",
            "take": 1,
        }
    ]
    read = manifest.read(str(folder / "out/train.jsonl"))
    assert [u.audio_path for u in read] == [f"{folder}/source/a/{i}.wav" for i in (0, 3)]


def test_paths_below_the_output_are_relative(folder):
    assert run("manifests", "source", "source", folder=folder).returncode == 0
    assert rows(folder / "source/source.jsonl")[0]["audio_filepath"] == "a/0.wav"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (
            ["manifest", "source", "out"],
            2,
            "'manifest' is not a corpus; choose one of librispeech, manifests; see --help",
        ),
        (
            ["manifests", "source"],
            2,
            "import_corpus takes CORPUS SOURCE OUTPUT, 2 arguments are given (lists of speakers "
            "without blanks: --dev_speakers=a,b); see --help",
        ),
        (
            ["manifests", "source", "out", "--dev_speaker=ann"],
            2,
            "Unknown command line flag 'dev_speaker'. Did you mean: dev_speakers ?; see --help",
        ),
        (
            ["manifests", "gone", "out"],
            1,
            "gone: no such folder; name the folder of the corpus",
        ),
        (
            ["manifests", "source", "out", "--test_speakers=anna"],
            1,
            "--test_speakers: speaker 'anna' does not occur; near: 'ann'",
        ),
    ],
)
def test_errors_are_one_line_and_write_nothing(folder, arguments, status, message):
    done = run(*arguments, folder=folder)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr == f"error: {message}\n"
    assert not (folder / "out").exists()


def test_help_has_examples(folder):
    done = run("--help", folder=folder)
    assert "ds2 import_corpus librispeech LibriSpeech data/librispeech" in done.stdout
    assert "SOURCE/[subset/]speaker/chapter/*.trans.txt" in done.stdout
