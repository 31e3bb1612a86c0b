"""The LibriSpeech tree: every layout it comes in, and what is missing from it."""

import pathlib

import numpy as np
import pytest
import soundfile

from ds2_tf import corpora
from ds2_tf.corpora.reader import Skipped
from ds2_tf.errors import UserError

SPEAKERS = """\
;ID  |SEX| SUBSET           |MINUTES| NAME
14   | F | train-clean-360  | 25.03 | Kristin LeMoine
84   | M | dev-clean        |  8.02 | Christie Nowak
"""


def record(path: pathlib.Path, seconds: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    samples = np.random.default_rng(0).normal(0, 0.1, round(16000 * seconds)).clip(-1, 1)
    soundfile.write(path, samples, 16000)


@pytest.fixture
def corpus(tmp_path):
    """Two subsets, three chapters, recordings of three kinds, SPEAKERS.TXT."""
    root = tmp_path / "LibriSpeech"
    record(root / "dev-clean/84/121550/84-121550-0000.flac", 0.5)
    record(root / "dev-clean/84/121550/84-121550-0001.mp3", 0.75)
    (root / "dev-clean/84/121550/84-121550.trans.txt").write_text(
        "84-121550-0000 BUT WITH FULL RAVISHMENT\n84-121550-0001 THE HOURS OF PRIME\n"
    )
    record(root / "dev-clean/84/7/84-7-0000.ogg", 0.25)
    (root / "dev-clean/84/7/84-7.trans.txt").write_bytes(b"\xef\xbb\xbf84-7-0000  AH'S \r\n\r\n")
    record(root / "train-clean-100/26/495/26-495-0000.wav", 1)
    (root / "train-clean-100/26/495/26-495.trans.txt").write_text("26-495-0000\n")
    (root / "SPEAKERS.TXT").write_text(SPEAKERS)
    return root


def read(source):
    skipped: list[Skipped] = []
    return list(corpora.read("librispeech", source, skipped)), skipped


def test_rows_have_subset_text_duration_speaker_chapter_and_gender(corpus):
    rows, skipped = read(corpus)
    assert skipped == []
    found = [
        (split, pathlib.Path(u.audio_path).name, u.transcript, u.duration_seconds, u.speaker)
        for split, u in rows
    ]
    assert found == [
        ("dev-clean", "84-121550-0000.flac", "BUT WITH FULL RAVISHMENT", 0.5, "84"),
        ("dev-clean", "84-121550-0001.mp3", "THE HOURS OF PRIME", 0.75, "84"),
        ("dev-clean", "84-7-0000.ogg", "AH'S", 0.25, "84"),
        ("train-clean-100", "26-495-0000.wav", "", 1.0, "26"),
    ]
    assert rows[0][1].extra == {"chapter": "121550", "gender": "M"}
    assert rows[3][1].extra == {"chapter": "495"}  # SPEAKERS.TXT does not name speaker 26.
    assert all(pathlib.Path(u.audio_path).is_absolute() for _, u in rows)


@pytest.mark.parametrize("below", ["..", "dev-clean", "dev-clean/84", "dev-clean/84/7"])
def test_any_folder_of_the_tree_may_be_the_source(corpus, below, monkeypatch):
    monkeypatch.chdir(corpus / below)
    rows, _ = read(".")
    splits = {split for split, _ in rows}
    assert splits == ({"dev-clean", "train-clean-100"} if below == ".." else {"dev-clean"})
    last = next(u for _, u in rows if u.audio_path.endswith("84-7-0000.ogg"))
    assert last.extra == {"chapter": "7", "gender": "M"}


def test_a_linked_subset_is_read_and_a_loop_ends(corpus, tmp_path):
    source = tmp_path / "links"
    source.mkdir()
    (source / "dev-clean").symlink_to(corpus / "dev-clean")
    (corpus / "dev-clean/84/loop").symlink_to(corpus / "dev-clean")
    rows, _ = read(source)
    assert [split for split, _ in rows] == ["dev-clean"] * 3


def test_what_has_no_counterpart_is_named(corpus):
    chapter = corpus / "dev-clean/84/121550"
    (chapter / "84-121550-0000.flac").unlink()
    record(chapter / "84-121550-0009.flac", 0.5)
    record(corpus / "train-clean-100/26/496/26-496-0000.flac", 0.5)
    record(corpus / "train-clean-100/26/495/26-495-0000.flac", 0.5)
    (chapter / "84-121550-0001.mp3").write_text("<html>404</html>")
    with open(corpus / "dev-clean/84/7/84-7.trans.txt", "a") as file:
        file.write("84-7-0000 AGAIN\n")
    rows, skipped = read(corpus)
    assert len(rows) == 2
    assert skipped == [
        Skipped(f"{chapter}/84-121550.trans.txt:1", "transcript without audio", "84-121550-0000"),
        Skipped(
            f"{chapter}/84-121550-0001.mp3",
            "recording is html",
            f"{chapter}/84-121550-0001.mp3: is an HTML or XML page, not audio; download the "
            "recording itself",
        ),
        Skipped(f"{chapter}/84-121550-0009.flac", "recording without a transcript"),
        Skipped(f"{corpus}/dev-clean/84/7/84-7.trans.txt:3", "transcript given twice", "84-7-0000"),
        Skipped(
            f"{corpus}/train-clean-100/26/495/26-495-0000.wav",
            "second recording of an utterance",
            "26-495-0000.flac is used",
        ),
        Skipped(
            f"{corpus}/train-clean-100/26/496/26-496-0000.flac", "recording without a transcript"
        ),
    ]


def test_a_folder_without_transcripts_is_refused(tmp_path):
    record(tmp_path / "a.wav", 0.5)
    with pytest.raises(UserError) as raised:
        read(tmp_path)
    assert str(raised.value) == (
        f"{tmp_path}: no *.trans.txt below this folder; name the folder that holds LibriSpeech's "
        "subsets, such as LibriSpeech/"
    )


def test_transcripts_without_any_recording_are_refused(corpus):
    source = corpus / "dev-clean/84/7"
    (source / "84-7-0000.ogg").unlink()
    with pytest.raises(UserError) as raised:
        read(source)
    assert str(raised.value) == (
        f"{source}: no recording with a transcript; skipped 1, such as {source}/84-7.trans.txt:1 "
        "(transcript without audio); check that this is the whole corpus"
    )


def test_a_transcript_file_in_another_encoding_is_an_error_with_its_line(corpus):
    path = corpus / "dev-clean/84/7/84-7.trans.txt"
    path.write_bytes(b"84-7-0000 AH\n84-7-0001 \xc4H\n")
    with pytest.raises(UserError) as raised:
        read(corpus)
    assert str(raised.value) == f"{path}:2: not UTF-8 text; convert the file to UTF-8"
