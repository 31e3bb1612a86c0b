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
    wrote, without, how_to_call = done.stdout.splitlines()
    assert re.fullmatch(
        rf"wrote {re.escape(str(output))} \(\d+\.\d MiB\), to be called with 8000 Hz", wrote
    )
    assert without == (
        "without stream_start and stream_step: the model is bidirectional and needs the whole "
        "recording"
    )
    call = how_to_call.removeprefix("call it: ")
    compile(call, "printed", "eval")
    assert call == (
        f"tf.saved_model.load({str(output)!r}).signatures['transcribe']"
        "(waveform=..., waveform_lengths=...)['text']"
    )
    assert (output / "saved_model.pb").stat().st_size > 1000
    assert list(tmp_path.iterdir()) == [output]


def test_next_version_for_tf_serving(streaming_workdir, tmp_path):
    output = tmp_path / "models" / "tiny"
    (output / "4").mkdir(parents=True)
    done = run(
        f"--workdir={streaming_workdir}", f"--output={output}", "--tf_serving", "--dtype=bfloat16"
    )
    assert done.returncode == 0, done.stderr
    wrote, serve = done.stdout.splitlines()
    assert wrote.startswith(f"wrote {output}/5 (")
    assert serve.startswith(f"serve it: docker run --rm -p 8500:8500 -p 8501:8501 -v {output}:")
    assert sorted(path.name for path in output.iterdir()) == ["4", "5", "batching.config"]
    assert (output / "5" / "assets.extra" / "tf_serving_warmup_requests").stat().st_size > 1000


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
            ["--workdir=runs/x", "--output=y", "--tf_serving", "--overwrite"],
            "--tf_serving makes a new version, so --overwrite has no use",
        ),
        (
            ["--workdir=runs/x", "--output=y", "--dtype=float8"],
            "flag --dtype=float8: value should be one of <float32|float16|bfloat16>",
        ),
        (
            ["--workdir=runs/x", "--output=y", "--format=onnx"],
            "flag --format=onnx: value should be one of <saved_model|tflite>",
        ),
        (
            ["--workdir=runs/x", "--output=y", "--format=tflite", "--quantize=int8"],
            "--quantize=int8 needs --calibration=MANIFEST",
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
