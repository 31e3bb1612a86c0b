"""The table, the JSON lines, and that no half report is left behind."""

import collections
import json

import pytest

from ds2_tf import data_report
from ds2_tf.data_rules import Finding
from ds2_tf.manifest import Utterance


def utterance(line: int, *paths: str, seconds: float = 1800.0) -> Utterance:
    return Utterance(paths or (f"/a/{line}.wav",), seconds, "x", line=line, manifest="m.jsonl")


ROWS = [utterance(1), utterance(2), utterance(3, "/a/x.wav", "/a/y.wav"), utterance(4)]
FINDINGS = [
    Finding(
        ROWS[0], "unknown_characters", "'é' (U+00E9) x2", "write", 0, collections.Counter("éé")
    ),
    Finding(ROWS[2], "silent", "near silence", "record it again", 2),
    Finding(ROWS[2], "unknown_characters", "'3' x1, 'é' x1", "write", 2, collections.Counter("3é")),
]


def test_the_table_counts_rows_and_hours_by_reason():
    assert data_report.table(FINDINGS, ROWS) == "\n".join(
        [
            "                         rows   share     hours",
            "silent                      1   25.0%      0.50",
            "unknown_characters          2   50.0%      1.00",
            "total                       4  100.0%      2.00",
            "good                        2   50.0%      1.00",
            "silent, for example:",
            "  m.jsonl:3: /a/x.wav (+1 more): near silence; record it again",
            "unknown_characters, for example:",
            "  m.jsonl:1: /a/1.wav: 'é' (U+00E9) x2; write",
            "characters outside the alphabet: 'é' (U+00E9) x3, '3' x1",
        ]
    )


def test_a_row_with_two_findings_of_one_reason_counts_once():
    findings = [
        Finding(ROWS[2], "silent", "part x.wav: digital silence", "record it again", 2),
        Finding(ROWS[2], "silent", "part y.wav: digital silence", "record it again", 2),
    ]
    line = data_report.table(findings, ROWS).splitlines()[1]
    assert line == "silent                      1   25.0%      0.50"


def test_the_table_of_a_clean_manifest_and_of_none():
    assert data_report.table([], ROWS[:1]).splitlines()[1:] == [
        "total                       1  100.0%      0.50",
        "good                        1  100.0%      0.50",
    ]
    assert data_report.table([], []).splitlines()[1:] == [
        "total                       0    0.0%      0.00",
        "good                        0    0.0%      0.00",
    ]


def test_a_row_made_by_a_program_is_named_by_its_index():
    finding = Finding(Utterance(("a.wav",), 1.0, "x"), "silent", "near silence", "remove it", 7)
    assert data_report.describe(finding) == "row 7: a.wav: near silence; remove it"


def test_the_report_has_an_object_for_each_finding(tmp_path):
    data_report.write_report(tmp_path / "report.jsonl", FINDINGS)
    lines = (tmp_path / "report.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines[:2]] == [
        {
            "manifest": "m.jsonl",
            "line": 1,
            "audio_filepath": "/a/1.wav",
            "reason": "unknown_characters",
            "detail": "'é' (U+00E9) x2",
            "remedy": "write",
        },
        {
            "manifest": "m.jsonl",
            "line": 3,
            "audio_filepath": ["/a/x.wav", "/a/y.wav"],
            "reason": "silent",
            "detail": "near silence",
            "remedy": "record it again",
        },
    ]
    assert len(lines) == 3
    assert "é" in lines[0]


def test_a_failed_report_leaves_the_old_one(tmp_path):
    path = tmp_path / "report.jsonl"
    path.write_text("old\n")

    def fail():
        yield FINDINGS[0]
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        data_report.write_report(path, fail())
    assert path.read_text() == "old\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.jsonl"]
