import json

import pytest

from ds2_tf import transcript_formats
from ds2_tf.transcript import Transcript, Word


def _transcript(*words, separator=" "):
    words = tuple(Word(text, start, end, 0.5) for text, start, end in words)
    return Transcript(
        separator.join(word.text for word in words), words, 12.5, "talk.wav", separator
    )


_TALK = _transcript(("hello", 1.2299999, 1.5), ("r&d", 1.6, 2.0), ("<bye>", 3661.0, 3661.9996))
_SILENCE = _transcript()


def test_text_is_one_line():
    assert transcript_formats.text(_TALK) == "hello r&d <bye>\n"
    assert transcript_formats.text(_SILENCE) == "\n"


def test_json_has_everything_on_one_line():
    line = transcript_formats.json_line(_transcript(("größe", 0.25, 0.5)))
    assert line.count("\n") == 1
    assert "größe" in line
    assert json.loads(line) == {
        "file": "talk.wav",
        "duration_seconds": 12.5,
        "text": "größe",
        "words": [{"text": "größe", "start_seconds": 0.25, "end_seconds": 0.5, "confidence": 0.5}],
    }
    assert json.loads(transcript_formats.json_line(_SILENCE))["words"] == []


def test_srt():
    assert transcript_formats.srt(_TALK) == (
        "1\n00:00:01,230 --> 00:00:02,000\nhello r&d\n\n2\n01:01:01,000 --> 01:01:02,000\n<bye>\n\n"
    )
    assert transcript_formats.srt(_SILENCE) == ""


def test_vtt_has_its_header_and_escapes_markup():
    assert transcript_formats.vtt(_TALK) == (
        "WEBVTT\n\n"
        "00:00:01.230 --> 00:00:02.000\nhello r&amp;d\n\n"
        "01:01:01.000 --> 01:01:02.000\n&lt;bye&gt;\n\n"
    )
    assert transcript_formats.vtt(_SILENCE) == "WEBVTT\n\n"


def test_tsv_is_in_milliseconds():
    assert transcript_formats.tsv(_TALK) == (
        "start\tend\ttext\n1230\t2000\thello r&d\n3661000\t3662000\t<bye>\n"
    )


def test_every_format_has_a_writer_and_an_extension():
    assert list(transcript_formats.WRITERS) == ["text", "json", "srt", "vtt", "tsv"]
    assert list(transcript_formats.EXTENSIONS) == list(transcript_formats.WRITERS)


def _cue_texts(*words, separator=" "):
    return [cue.text for cue in transcript_formats.cues(_transcript(*words, separator=separator))]


def test_cues_are_split_at_pauses():
    assert _cue_texts(("a", 0.0, 0.5), ("b", 1.29, 1.5), ("c", 2.3, 2.5)) == ["a b", "c"]


def test_cues_are_split_at_84_columns():
    words = [("x" * 9, 0.1 * k, 0.1 * k + 0.05) for k in range(17)]
    assert [len(text) for text in _cue_texts(*words)] == [79, 79, 9]
    wide = [("字", 0.1 * k, 0.1 * k + 0.05) for k in range(43)]
    assert _cue_texts(*wide, separator="") == ["字" * 42, "字"]


def test_cues_are_split_at_7_seconds():
    words = [("x", 0.5 * k, 0.5 * k + 0.4) for k in range(15)]
    assert _cue_texts(*words) == [" ".join(["x"] * 14), "x"]


def test_a_word_longer_than_a_cue_stands_alone():
    assert _cue_texts(("a", 0.0, 0.1), ("b" * 90, 0.2, 9.0), ("c", 9.1, 9.2)) == [
        "a",
        "b" * 90,
        "c",
    ]


def test_a_cue_lasts_at_least_a_millisecond():
    cue = transcript_formats.cues(_transcript(("a", 1.0, 1.0)))[0]
    assert (cue.start_ms, cue.end_ms) == (1000, 1001)


@pytest.mark.parametrize("name", list(transcript_formats.WRITERS))
def test_every_format_ends_its_last_line(name):
    assert transcript_formats.WRITERS[name](_TALK).endswith("\n")
