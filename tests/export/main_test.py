import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "export", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def last_line(text):
    return text.splitlines()[-1]


def test_replaces_an_older_export_and_says_how_to_call_it(tiny_workdir, tmp_path):
    output = tmp_path / "tiny"
    output.mkdir()
    (output / "saved_model.pb").write_text("old")
    done = run(
        f"--workdir={tiny_workdir}", "--format=saved_model", f"--output={output}", "--overwrite"
    )
    assert done.returncode == 0, done.stderr
    wrote, how_to_call = done.stdout.splitlines()
    assert re.fullmatch(
        rf"wrote {re.escape(str(output))} \(\d+\.\d MiB\), to be called with 8000 Hz", wrote
    )
    call = how_to_call.removeprefix("call it: ")
    compile(call, "printed", "eval")
    assert call == (
        f"tf.saved_model.load({str(output)!r}).signatures['transcribe']"
        "(waveform=..., waveform_lengths=...)['text']"
    )
    assert (output / "saved_model.pb").stat().st_size > 1000
    assert list(tmp_path.iterdir()) == [output]


def test_missing_workdir_fails_in_one_line(tmp_path):
    done = run(f"--workdir={tmp_path / 'none'}", f"--output={tmp_path / 'out'}")
    assert done.returncode == 1
    assert last_line(done.stderr) == (
        f"error: {tmp_path / 'none' / 'config.json'}: not found; --workdir must name the folder "
        "that `ds2 train` filled"
    )
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--workdir and --output are required"),
        (["--workdir=runs/x"], "--workdir and --output are required"),
        (["--workdir=runs/x", "--output=y", "z"], "unexpected argument 'z'"),
        (
            ["--workdir=runs/x", "--output=y", "--format=onnx"],
            "flag --format=onnx: value should be one of <saved_model>",
        ),
    ],
)
def test_wrong_usage(arguments, message):
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stderr == f"error: {message}; see --help\n"


def test_help_has_examples():
    done = run("--help")
    assert "Examples:\n  python -m export --workdir=runs/digits" in done.stdout
