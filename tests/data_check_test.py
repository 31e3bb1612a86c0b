"""The check as a whole: duplicates, joined rows, order, what is tolerated, what it costs."""

import numpy as np
import pytest

from ds2_tf import audio, audio_facts, data_check
from ds2_tf.errors import UserError
from ds2_tf.features import FeatureConfig
from tests.manifest_rows import ENGLISH, RATE, Rows, speech


@pytest.fixture
def rows(tmp_path):
    return Rows(tmp_path)


def test_the_same_audio_in_another_container_is_a_duplicate(rows):
    samples = (32767 * speech(1)).astype(np.int16)
    rows.add(samples, "one two", name="first.wav")
    rows.add(speech(1, seed=1), "one two")
    rows.add(samples, "One  two", name="again.flac")
    (finding,) = rows.check()
    assert (finding.row, finding.reason) == (2, "duplicate")
    assert finding.detail == f"same audio as m.jsonl:1 ({rows.folder}/first.wav)"
    assert finding.remedy == "remove the row, or allow 'duplicate'"


def test_contradictory_transcripts_make_both_rows_bad(rows):
    path = rows.add(speech(1), "one two").audio_path
    rows.add_file(path, "three four")
    findings = rows.check()
    assert [(f.row, f.reason) for f in findings] == [(0, "duplicate"), (1, "duplicate")]
    assert findings[0].detail == (
        f"same audio as m.jsonl:2 ({path}), but 'one two' here and 'three four' there"
    )
    assert findings[1].detail == (
        f"same audio as m.jsonl:1 ({path}), but 'three four' here and 'one two' there"
    )
    assert findings[1].remedy == "listen, and remove the row with the wrong text"


def test_of_duplicates_the_good_row_is_kept(rows):
    path = rows.add(speech(1), "").audio_path
    rows.add_file(path, "one two")
    findings = rows.check()
    assert [(f.row, f.reason) for f in findings] == [
        (0, "transcript_empty"),
        (0, "duplicate"),
    ]
    assert data_check.clean(rows.utterances, findings) == [rows.utterances[1]]


def test_joined_rows_are_judged_as_one(rows):
    first = rows.add(speech(0.3), "one").audio_path
    second = rows.add(speech(0.4, seed=1), "two").audio_path
    rows.add_file((first, second), "one two", 0.3 + 0.4 + 0.5, (0.5,))
    rows.add_file((second, first), "two one", 0.7)
    rows.add_file((first, second), "one two", 0.7, (0.5,))
    rows.add_file((first, second, first), "one two one", 1.0)
    rows.add_file((second, first), "two one", 0.7, (0.0,))
    findings = rows.check()
    assert [(f.row + 1, f.reason) for f in findings] == [
        (5, "duration_off"),
        (5, "duplicate"),
        (7, "duplicate"),
    ]
    assert findings[0].detail == "the manifest says 0.70 s, the audio lasts 1.20 s"
    assert findings[1].detail == f"same audio as m.jsonl:3 ({first} (+1 more))"


def test_the_parts_of_a_joined_row_are_named(rows):
    good = rows.add(speech(0.3), "one").audio_path
    gone = rows.folder / "gone.wav"
    silent = rows.add(np.zeros(8000), "two", name="silent.wav").audio_path
    rows.add_file((good, gone, silent, gone), "one two", 1.0)
    findings = [f for f in rows.check() if f.row == 2]
    assert [(f.reason, f.detail) for f in findings] == [
        ("audio_missing", "part gone.wav: no such file"),
        ("silent", "part silent.wav: digital silence, every sample is 0"),
    ]


def test_the_frames_of_a_joined_row_are_those_of_its_samples(rows):
    rate = 44100
    paths = tuple(
        rows.add(speech(0.2531 + i / 100, rate, seed=i), "a", rate=rate).audio_path
        for i in range(3)
    )
    rows.utterances.clear()
    row = rows.add_file(paths, "a", 1.0, (0.1003, 0.0507))
    num_samples = len(audio.load_utterance(row, RATE))
    num_frames = (1 + (num_samples - 320) // 160 + 1) // 2
    for length in (num_frames, num_frames + 1):
        rows.utterances.clear()
        rows.add_file(paths, ("ab" * length)[:length], 1.0, (0.1003, 0.0507))
        found = rows.reasons(allow=["implausible_rate"])
        assert found == ([(1, "too_long_for_frames")] if length > num_frames else [])


def test_a_row_may_have_several_findings_in_a_fixed_order(rows):
    rows.add(np.zeros(RATE), "7" * 70, duration=2.0)
    assert rows.reasons() == [
        (1, "duration_off"),
        (1, "silent"),
        (1, "unknown_characters"),
        (1, "implausible_rate"),
    ]


def test_allowed_reasons_are_not_reported(rows):
    rows.add(np.zeros(RATE), "7")
    assert rows.reasons(allow=("silent",)) == [(1, "unknown_characters")]
    assert rows.reasons(allow=("silent", "unknown_characters")) == []


def test_an_unknown_reason_names_the_near_one(rows):
    with pytest.raises(UserError) as raised:
        rows.check(allow=("cliped",))
    assert str(raised.value) == "allow: 'cliped' is not a reason; did you mean 'clipped'?"
    with pytest.raises(UserError) as raised:
        rows.check(allow=("",))
    assert str(raised.value) == (
        "allow: '' is not a reason; choose from audio_missing, audio_html, audio_empty, "
        "audio_unreadable, audio_truncated, audio_bad_header, duration_off, silent, clipped, "
        "transcript_empty, unknown_characters, too_long_for_frames, implausible_rate, duplicate"
    )


def test_a_stride_below_one_is_a_programming_error(rows):
    with pytest.raises(ValueError, match=r"^frame_stride must be >= 1. Received: 0$"):
        rows.check(stride=0)


def test_each_file_is_decoded_once_however_many_rows_join_it(rows, monkeypatch):
    paths = [rows.add(speech(0.3, seed=i), "one").audio_path for i in range(5)]
    for i in range(40):
        rows.add_file((paths[i % 5], paths[(i + 1) % 5], paths[(i * i) % 5]), "one two", 0.9)
    decoded = []
    measure = audio_facts.measure
    monkeypatch.setattr(audio_facts, "measure", lambda p: decoded.append(p) or measure(p))
    rows.check(allow=["duplicate"])
    assert sorted(decoded) == sorted(paths)


def test_findings_come_in_the_order_of_the_rows(rows):
    for i in range(60):
        if i % 7 == 3:
            rows.add_file(rows.folder / f"gone{i}.wav")
        else:
            rows.add(speech(0.3 + (59 - i) / 40, seed=i), "one")
    expected = [(i + 1, "audio_missing") for i in range(60) if i % 7 == 3]
    assert rows.reasons() == expected


def test_the_progress_bar_shows_rate_and_time_left(rows, capsys):
    rows.add(speech(1), "one")
    data_check.check(rows.utterances, ENGLISH, FeatureConfig(RATE), 2)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "checking: 100%" in shown.err
    assert "1/1" in shown.err
    assert "row/s" in shown.err or "s/row" in shown.err
