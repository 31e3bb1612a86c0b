import json
import shutil
import subprocess
import sys

import pytest

from ds2_tf.transcribe import Transcriber


def _run(*arguments, stdin=None):
    return subprocess.run(
        [sys.executable, "-m", "ds2_tf.bin.transcribe", *map(str, arguments)],
        stdin=stdin,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture(scope="module")
def recordings(tmp_path_factory, digits_folder):
    """Three digits in a folder, and beside them a file that is no recording."""
    folder = tmp_path_factory.mktemp("recordings")
    paths = sorted(digits_folder.rglob("*.flac"))[:3]
    for path in paths:
        shutil.copy(path, folder)
    (folder / "page.wav").write_text("<html>")
    return folder, [folder / path.name for path in paths]


def _error_lines(done):
    return [line for line in done.stderr.splitlines() if line.startswith("error: ")]


def test_folder_with_a_bad_file(tiny_workdir, recordings, tmp_path):
    folder, paths = recordings
    out = tmp_path / "out"
    done = _run(f"--workdir={tiny_workdir}", "--format=srt", f"--output_dir={out}", folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert sorted(path.name for path in out.iterdir()) == [f"{path.stem}.srt" for path in paths]
    assert (out / f"{paths[0].stem}.srt").read_text().startswith("1\n00:00:00,")
    assert len(_error_lines(done)) == 1
    assert _error_lines(done)[0].startswith(
        f"error: {folder}/page.wav: is an HTML or XML page, not audio; "
    )


def test_standard_input_equals_the_library(tiny_workdir, recordings):
    path = recordings[1][0]
    expected = Transcriber.load(tiny_workdir).transcribe(path)
    assert expected.text
    with open(path, "rb") as file:
        pipe = subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE).stdout
        done = _run(f"--workdir={tiny_workdir}", "--format=json", "-", stdin=pipe)
    assert done.returncode == 0
    content = json.loads(done.stdout)
    assert (content["file"], content["text"]) == ("<stdin>", expected.text)
    assert content["words"][0]["start_seconds"] == expected.words[0].start_seconds


def test_output_is_untouched_when_nothing_succeeds(tiny_workdir, recordings, tmp_path):
    out = tmp_path / "out.txt"
    out.write_text("old")
    done = _run(f"--workdir={tiny_workdir}", f"--output={out}", recordings[0] / "page.wav")
    assert done.returncode == 1
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]
    assert out.read_text() == "old"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.wav"], "--workdir is required"),
        (["--workdir=w"], "name at least one FILE, a folder, or - for standard input"),
        (
            ["--workdir=w", "--output=o", "--output_dir=d", "a.wav"],
            "--output and --output_dir exclude each other",
        ),
        (
            ["--workdir=w", "--format=vtt", "a.wav", "b.wav"],
            "--format=vtt of several files needs --output_dir",
        ),
    ],
)
def test_wrong_command_lines(arguments, message):
    done = _run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {message}; see --help\n"


def test_missing_workdir_is_one_line():
    done = _run("--workdir=nowhere", "a.wav")
    assert (done.returncode, done.stdout) == (1, "")
    assert _error_lines(done) == done.stderr.splitlines()[-1:]
    assert "nowhere/config.json" in done.stderr
