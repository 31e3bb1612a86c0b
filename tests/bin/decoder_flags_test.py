"""The flags of the programs that write text, tried on those that are the quickest to fail."""

import dataclasses
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from ds2_tf import audio, manifest
from ds2_tf.acoustic_model import AcousticModel
from ds2_tf.decoding.beam_search import BeamSearchOptions
from ds2_tf.decoding.settings import DecoderSettings
from ds2_tf.transcribe import Transcriber
from tests.decoding.beams import need_beam_search, write_arpa

OPTIONS = BeamSearchOptions(beam_width=16, lm_weight=1.0, word_bonus=2.0)


def run(program, *arguments, stdin=None):
    return subprocess.run(
        [sys.executable, "-m", f"ds2_tf.bin.{program}", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        check=False,
    )


@pytest.fixture(scope="module")
def model_folder(streaming_workdir, tmp_path_factory):
    """The forward-only model with a language model and a decoder.json that names it."""
    need_beam_search()
    folder = tmp_path_factory.mktemp("run") / "run"
    shutil.copytree(streaming_workdir, folder)
    path = write_arpa(folder / "words.arpa", ["a", "i", "the", "so"])
    DecoderSettings("beam", OPTIONS).with_language_model(path).save(folder)
    return folder


@pytest.fixture(scope="module")
def recording(digits_folder):
    return sorted(digits_folder.rglob("*.flac"))[0]


def test_all_programs_decode_as_decoder_json_says(model_folder, recording, tmp_path):
    expected = Transcriber.load(model_folder).transcribe(recording)
    assert expected.words
    greedy = Transcriber(AcousticModel.load(model_folder)).transcribe(recording)
    assert expected.text != greedy.text

    done = run("transcribe", f"--workdir={model_folder}", "--format=json", recording)
    assert done.returncode == 0, done.stderr
    words = json.loads(done.stdout)["words"]
    assert words == [dataclasses.asdict(word) for word in expected.words]

    samples = audio.load(recording, 8000)
    utterance = manifest.Utterance((str(recording),), len(samples) / 8000, "zero")
    manifest.write(tmp_path / "m.jsonl", [utterance])
    result = tmp_path / "result.json"
    done = run(
        "evaluate",
        f"--workdir={model_folder}",
        f"--manifest={tmp_path}/m.jsonl",
        f"--json={result}",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(result.read_text())["utterances"][0]["hypothesis"] == expected.text

    pcm = np.round(samples * 32768).astype("<i2").tobytes()
    done = run("listen", f"--workdir={model_folder}", "--stability_seconds=0", stdin=pcm)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == f"{expected.text}\n"


def test_flags_change_what_decoder_json_says(model_folder, recording, tmp_path):
    words = tmp_path / "words.txt"
    words.write_text("yes\nno\n")
    model = AcousticModel.load(model_folder)
    options = dataclasses.replace(OPTIONS, beam_width=32, word_bonus=5.0)
    decoder = DecoderSettings("beam", options).make(
        model.alphabet, model.seconds_per_frame, {"ann": 9.0}, ["yes", "no"]
    )
    expected = Transcriber(model, decoder=decoder).transcribe(recording).text
    assert expected
    assert set(expected.split()) <= {"yes", "no", "ann"}
    done = run(
        "transcribe",
        f"--workdir={model_folder}",
        "--lm=",
        "--beam_width=32",
        "--word_bonus=5",
        "--hot_words=Ann:9",
        f"--allowed_words={words}",
        recording,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == f"{expected}\n"


@pytest.mark.parametrize(
    ("program", "arguments", "message"),
    [
        ("transcribe", ["--decoder=greedy", "--lm=a.binary"], "--lm is for --decoder=beam"),
        ("listen", ["--decoder=greedy", "--hot_words=a:1"], "--hot_words is for --decoder=beam"),
        ("evaluate", ["--beam_width=0"], "--beam_width must be >= 1. Received: 0"),
        (
            "transcribe",
            ["--cutoff_probability=2"],
            "--cutoff_probability must lie in (0, 1]. Received: 2.0",
        ),
    ],
)
def test_wrong_command_lines(program, arguments, message, tmp_path):
    others = {"transcribe": ["a.wav"], "evaluate": ["--manifest=m.jsonl"], "listen": []}
    done = run(program, f"--workdir={tmp_path}", *arguments, *others[program])
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == f"error: {message}; see --help\n"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (
            ["--lm=/nowhere/a.binary"],
            1,
            "/nowhere/a.binary: there is no such file; name a language model's file",
        ),
        (
            ["--hot_words=Zo\u00eb:5"],
            1,
            "hot words: 'zo\u00eb' has characters outside the alphabet: '\u00eb' (U+00EB) x1; "
            "leave it out or spell it otherwise",
        ),
        (
            ["--lm=", "--closed_vocabulary"],
            2,
            "--closed_vocabulary needs --lm or --allowed_words; see --help",
        ),
    ],
)
def test_what_cannot_be_decoded_with(model_folder, recording, arguments, status, message):
    done = run("transcribe", f"--workdir={model_folder}", *arguments, recording)
    assert (done.returncode, done.stdout) == (status, b"")
    assert done.stderr.decode().splitlines()[-1] == f"error: {message}"
