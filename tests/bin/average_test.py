import subprocess
import sys

import pytest

from ds2_tf import audio, manifest
from ds2_tf.acoustic_model import AcousticModel
from ds2_tf.evaluate import evaluate
from tests.averaging_test import make_run


def _run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "ds2_tf.bin.average", *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture(scope="module")
def run(tiny_workdir, tmp_path_factory):
    return make_run(tiny_workdir, tmp_path_factory.mktemp("average") / "run")


def test_averages_and_compares(run, tmp_path, digits_folder):
    path = tmp_path / "test.jsonl"
    utterances = [
        manifest.Utterance((str(audio_path),), audio.load(audio_path, 8000).shape[0] / 8000, "six")
        for audio_path in sorted(digits_folder.rglob("*.flac"))[:240:60]
    ]
    manifest.write(path, utterances)
    output = tmp_path / "average"
    done = _run(f"--workdir={run}", f"--output={output}", "--last=2", f"--manifest={path}")
    assert done.returncode == 0, done.stderr
    best, average = (
        evaluate(AcousticModel.load(folder), utterances, progress=False) for folder in (run, output)
    )
    assert best.character.rate != average.character.rate
    assert done.stdout == (
        f"{output}: average of step_000000030, step_000000100\n"
        f"best weights: WER {best.word.rate:.2%}, CER {best.character.rate:.2%}\n"
        f"average: WER {average.word.rate:.2%}, CER {average.character.rate:.2%}\n"
    )


def test_says_when_there_are_fewer_checkpoints(run, tmp_path):
    output = tmp_path / "average"
    done = _run(f"--workdir={run}", f"--output={output}")
    assert (done.returncode, done.stdout) == (
        0,
        f"{output}: average of step_000000004, step_000000030, step_000000100 "
        "(--last=5, but there are no more)\n",
    )
    again = _run(f"--workdir={run}", f"--output={output}")
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr.splitlines()[-1] == (
        f"error: {output}: exists already; choose another --output"
    )


def test_help_has_examples():
    done = _run("--help")
    assert done.returncode == 0
    assert "ds2 average --workdir=runs/english --output=runs/english_average" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workdir=w"], "--workdir and --output are required"),
        (["--output=w"], "--workdir and --output are required"),
        (
            ["--workdir=w", "--output=v", "--last=0"],
            "flag --last=0: 0 is not a positive integer",
        ),
        (
            ["--workdir=w", "--output=v", "--manifest=a.jsonl,", "b.jsonl"],
            "unexpected argument 'b.jsonl'; name several manifests without blanks, as "
            "--manifest=a.jsonl,b.jsonl",
        ),
    ],
)
def test_wrong_command_lines(arguments, message):
    done = _run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {message}; see --help\n"
