"""The program check_data as a user meets it: its output, files and exit statuses."""

import dataclasses
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import soundfile

from ds2_tf import alphabet


@dataclasses.dataclass
class Result:
    status: int
    output: str
    errors: str

    @property
    def error(self) -> str:
        """The line that says what is wrong."""
        return next(line for line in self.errors.splitlines() if line.startswith("error: "))


def run(*arguments: str, folder: pathlib.Path) -> Result:
    command = [sys.executable, "-m", "ds2_tf.bin.check_data", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return Result(done.returncode, done.stdout, done.stderr)


def write_row(path: pathlib.Path, **fields) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(fields, ensure_ascii=False) + "\n")


@pytest.fixture
def folder(tmp_path):
    """Two good rows in good.jsonl; good ones and three bad ones in bad.jsonl."""
    for i in range(3):
        samples = np.random.default_rng(i).normal(0, 0.1, 16000).clip(-1, 1)
        soundfile.write(tmp_path / f"{i}.wav", samples, 16000)
    for i, text in enumerate(("one two", "three four")):
        write_row(tmp_path / "good.jsonl", audio_filepath=f"{i}.wav", duration=1.0, text=text)
    bad = tmp_path / "bad.jsonl"
    write_row(bad, audio_filepath="0.wav", duration=1.0, text="one", speaker="ann", take=3)
    write_row(bad, audio_filepath="gone.wav", duration=1.0, text="two")
    write_row(bad, audio_filepath="1.wav", duration=2.0, text="3 é")
    write_row(bad, audio_filepath=["1.wav", "2.wav"], duration=2.0, text="x", pause_seconds=[0])
    write_row(bad, audio_filepath="0.wav", duration=1.0, text="one")
    return tmp_path


def test_a_clean_manifest_with_windows_line_ends_and_a_byte_order_mark(folder):
    lines = (folder / "good.jsonl").read_bytes().replace(b"\n", b"\r\n")
    (folder / "good.jsonl").write_bytes(b"\xef\xbb\xbf" + lines + b"\r\n")
    result = run("--manifest=good.jsonl", "--report=report.jsonl", folder=folder)
    assert result.status == 0
    assert result.output.splitlines() == [
        "                         rows   share     hours",
        "total                       2  100.0%      0.00",
        "good                        2  100.0%      0.00",
        "report: report.jsonl (0 findings)",
    ]
    assert "checking: 100%" in result.errors
    assert (folder / "report.jsonl").read_text() == ""


def test_bad_rows_are_reported_and_left_out_of_the_clean_manifest(folder):
    result = run(
        "--manifest=bad.jsonl", "--report=r/report.jsonl", "--write_clean=clean.jsonl",
        folder=folder,
    )  # fmt: skip
    assert result.status == 1
    lines = result.output.splitlines()
    assert lines[1:7] == [
        "audio_missing               1   20.0%      0.00",
        "duration_off                1   20.0%      0.00",
        "unknown_characters          1   20.0%      0.00",
        "duplicate                   1   20.0%      0.00",
        "total                       5  100.0%      0.00",
        "good                        2   40.0%      0.00",
    ]
    assert f"  bad.jsonl:2: {folder}/gone.wav: no such file; check the path" in lines
    assert "characters outside the alphabet: '3' x1, 'é' (U+00E9) x1" in lines
    report = [json.loads(line) for line in (folder / "r/report.jsonl").open(encoding="utf-8")]
    assert [(row["line"], row["reason"]) for row in report] == [
        (2, "audio_missing"),
        (3, "duration_off"),
        (3, "unknown_characters"),
        (5, "duplicate"),
    ]
    assert report[0] == {
        "manifest": "bad.jsonl",
        "line": 2,
        "audio_filepath": f"{folder}/gone.wav",
        "reason": "audio_missing",
        "detail": "no such file",
        "remedy": "check the path",
    }
    clean = [json.loads(line) for line in (folder / "clean.jsonl").open(encoding="utf-8")]
    first = {"audio_filepath": "0.wav", "duration": 1.0, "text": "one", "speaker": "ann", "take": 3}
    joined = {"audio_filepath": ["1.wav", "2.wav"], "duration": 2.0, "text": "x"}
    assert clean == [first, joined | {"pause_seconds": [0.0]}]


def test_an_alphabet_file_a_rate_and_a_stride(folder):
    alphabet.from_transcripts(["one two three four"]).save(folder / "alphabet.json")
    result = run(
        "--manifest=good.jsonl, good.jsonl", "--alphabet=alphabet.json", "--allow=duplicate",
        "--sample_rate_hz=8000", "--frame_stride=10", folder=folder,
    )  # fmt: skip
    # 1 s has 99 frames, 10 after the stride: too few for "three four" with its repeat.
    assert result.status == 1
    assert result.output.splitlines()[1:4] == [
        "too_long_for_frames         2   50.0%      0.00",
        "total                       4  100.0%      0.00",
        "good                        2   50.0%      0.00",
    ]
    assert "11 frames needed (10 labels + 1 repeats), 10 there" in result.output


def test_a_workdir_brings_alphabet_rate_and_stride(folder, tiny_workdir):
    write_row(folder / "long.jsonl", audio_filepath="2.wav", duration=1.0, text="ab" * 25)
    write_row(folder / "long.jsonl", audio_filepath="1.wav", duration=1.0, text="a" + "bc" * 25)
    result = run(
        "--manifest=long.jsonl", f"--workdir={tiny_workdir}", "--allow=implausible_rate",
        folder=folder,
    )  # fmt: skip
    # At 8 kHz 1 s has 99 frames, 50 after the stride of 2.
    assert result.status == 1
    assert "51 frames needed (51 labels + 0 repeats), 50 there" in result.output
    assert result.output.splitlines()[3].startswith("good                        1")


def test_the_table_is_shown_when_the_report_cannot_be_written(folder):
    result = run("--manifest=good.jsonl", "--report=0.wav/report.jsonl", folder=folder)
    assert result.status == 1
    assert result.error == (
        f"error: {folder}/0.wav/report.jsonl: cannot be written (File exists); choose a folder you "
        "may write to"
    )
    assert "good                        2  100.0%      0.00" in result.output


def test_a_misspelt_key_is_an_error_with_file_line_and_remedy(folder):
    write_row(folder / "good.jsonl", audio_filename="0.wav", duration=1.0, text="one")
    result = run("--manifest=good.jsonl", "--write_clean=clean.jsonl", folder=folder)
    assert (result.status, result.output) == (1, "")
    assert result.error.startswith("error: good.jsonl:3: unknown key 'audio_filename'")
    assert "audio_filepath" in result.error
    assert not (folder / "clean.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "--manifest is missing"),
        (
            ["--manifest", "good.jsonl,", "bad.jsonl"],
            "unexpected argument 'bad.jsonl'; name several manifests without blanks, as "
            "--manifest=a.jsonl,b.jsonl",
        ),
        (
            ["--manifest=good.jsonl", "--allow=clipped,duplicates"],
            "--allow: 'duplicates' is not a reason; did you mean 'duplicate'?",
        ),
        (
            ["--manifest=good.jsonl", "--workdir=w", "--frame_stride=2"],
            "--frame_stride and --workdir exclude each other",
        ),
        (
            ["--manifest=good.jsonl", "--frame_stride=0"],
            "flag --frame_stride=0: 0 is not a positive integer",
        ),
    ],
)
def test_a_wrong_command_line(folder, arguments, error):
    result = run(*arguments, folder=folder)
    assert (result.status, result.output) == (2, "")
    assert result.error.startswith(f"error: {error}")


def test_help_has_examples(folder):
    result = run("--help", folder=folder)
    assert "ds2 check_data --manifest=train.jsonl" in result.output
    assert "exit status" in result.output.lower()
