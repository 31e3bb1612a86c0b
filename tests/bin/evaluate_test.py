import json
import subprocess
import sys

import pytest

from ds2_tf import audio, manifest
from ds2_tf.acoustic_model import AcousticModel
from ds2_tf.evaluate import evaluate, report


def _run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "ds2_tf.bin.evaluate", *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, digits_folder):
    """Manifests of 24 real digits, the second one with a file that is missing."""
    folder = tmp_path_factory.mktemp("corpus")
    utterances = [
        manifest.Utterance((str(path),), audio.load(path, 8000).shape[0] / 8000, "seven")
        for path in sorted(digits_folder.rglob("*.flac"))[:240:10]
    ]
    manifest.write(folder / "good.jsonl", utterances)
    missing = manifest.Utterance((str(folder / "missing.wav"),), 1.0, "seven")
    manifest.write(folder / "bad.jsonl", [*utterances, missing])
    return folder


def test_prints_the_report_and_writes_json(tiny_workdir, corpus, tmp_path):
    path = tmp_path / "result.json"
    done = _run(f"--workdir={tiny_workdir}", f"--manifest={corpus}/good.jsonl", f"--json={path}")
    expected = evaluate(
        AcousticModel.load(tiny_workdir),
        manifest.read(corpus / "good.jsonl"),
        batch_size=5,
        progress=False,
    )
    assert done.returncode == 0
    assert done.stdout == report(expected) + f"\nall utterances: {path}\n"
    assert "evaluating: 100%" in done.stderr
    content = json.loads(path.read_text())
    assert content["character"]["rate"] == expected.character.rate
    assert len(content["utterances"]) == 24


def test_the_streaming_form_and_adaptation_are_what_is_asked_for(tiny_workdir, corpus, tmp_path):
    path = tmp_path / "result.json"
    done = _run(
        f"--workdir={tiny_workdir}",
        f"--manifest={corpus}/good.jsonl",
        f"--json={path}",
        "--streaming",
        "--adapt_seconds=2",
    )
    assert done.returncode == 0, done.stderr
    model = AcousticModel.load(tiny_workdir)
    utterances = manifest.read(corpus / "good.jsonl")
    heard = {}
    for name, form in (
        ("whole", model.feature_config),
        ("streaming", model.feature_config.causal.adapted(2)),
    ):
        result = evaluate(model.with_features(form), utterances, progress=False)
        heard[name] = [utterance.hypothesis for utterance in result.utterances]
    content = json.loads(path.read_text())
    assert [row["hypothesis"] for row in content["utterances"]] == heard["streaming"]
    assert heard["streaming"] != heard["whole"]


def test_stops_when_too_many_recordings_are_bad(tiny_workdir, corpus, tmp_path):
    path = tmp_path / "result.json"
    done = _run(f"--workdir={tiny_workdir}", f"--manifest={corpus}/bad.jsonl", f"--json={path}")
    assert (done.returncode, done.stdout) == (1, "")
    assert not path.exists()
    assert done.stderr.splitlines()[-1] == (
        "error: 1 of 25 recordings cannot be read, more than max_bad_share=0.01 allows; the "
        f"latest: {corpus}/bad.jsonl:25: {corpus}/missing.wav: no such file; check the path"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workdir=w"], "--workdir and --manifest are required"),
        (
            ["--workdir=w", "--manifest=a.jsonl,", "b.jsonl"],
            "unexpected argument 'b.jsonl'; name several manifests without blanks, as "
            "--manifest=a.jsonl,b.jsonl",
        ),
    ],
)
def test_wrong_command_lines(arguments, message):
    done = _run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {message}; see --help\n"
