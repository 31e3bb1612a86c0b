import dataclasses
import json
import pathlib

import pytest

from ds2_tf import manifest
from ds2_tf.errors import UserError
from ds2_tf.manifest import Utterance

RECORDINGS = pathlib.Path(__file__).parent / "data" / "recordings" / "manifest.jsonl"
ROW = {"audio_filepath": "a.wav", "duration": 1.5, "text": "hello"}


def write_rows(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_reads_every_field(tmp_path):
    row = ROW | {"speaker": "amy", "chapter": 7}
    path = write_rows(tmp_path / "m.jsonl", row)
    (utterance,) = manifest.read(path)
    assert utterance == Utterance(
        audio_paths=(str(tmp_path / "a.wav"),),
        duration_seconds=1.5,
        transcript="hello",
        speaker="amy",
        line=1,
        manifest=str(path),
    )
    assert utterance.extra == {"chapter": 7}
    assert utterance.audio_path == str(tmp_path / "a.wav")


def test_the_recordings_of_the_repository_exist():
    utterances = manifest.read(RECORDINGS)
    assert len(utterances) == 7
    assert all(pathlib.Path(u.audio_path).is_file() for u in utterances)
    assert utterances[5].transcript == "设定二十九度"


def test_joined_utterances(tmp_path):
    row = ROW | {"audio_filepath": ["a.wav", "/b/b.wav", "c.wav"], "pause_seconds": [0.25, 0]}
    (utterance,) = manifest.read(write_rows(tmp_path / "m.jsonl", row))
    assert utterance.audio_paths == (
        str(tmp_path / "a.wav"),
        "/b/b.wav",
        str(tmp_path / "c.wav"),
    )
    assert utterance.pauses_seconds == (0.25, 0.0)
    assert utterance.audio_path == f"{tmp_path}/a.wav (+2 more)"


def test_relative_paths_resolve_against_the_manifest_not_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    write_rows(tmp_path / "sub" / "m.jsonl", ROW | {"audio_filepath": "../x/a.wav"})
    monkeypatch.chdir(tmp_path)
    (utterance,) = manifest.read("sub/m.jsonl")
    assert utterance.audio_path == str(tmp_path / "x" / "a.wav")
    assert utterance.manifest == "sub/m.jsonl"


def test_windows_line_ends_byte_order_mark_and_blank_lines(tmp_path):
    path = tmp_path / "m.jsonl"
    line = json.dumps(ROW | {"text": "zwölf\u2028 a"}, ensure_ascii=False)
    path.write_bytes(("\ufeff" + line + "\r\n\r\n  \r\n" + line).encode())
    first, second = manifest.read(path)
    assert first.transcript == second.transcript == "zwölf\u2028 a"
    assert (first.line, second.line) == (1, 4)


def test_lists_of_manifests_tolerate_spaces(tmp_path):
    a = write_rows(tmp_path / "a.jsonl", ROW)
    b = write_rows(tmp_path / "b.jsonl", ROW, ROW)
    for paths in (f"{a}, {b}", f" {a},{b}, ", [str(a), f" {b}"], (a, b)):
        assert [(u.manifest, u.line) for u in manifest.read(paths)] == [
            (str(a), 1),
            (str(b), 1),
            (str(b), 2),
        ]


def test_a_file_name_may_hold_a_comma(tmp_path):
    path = write_rows(tmp_path / "a, b.jsonl", ROW)
    assert len(manifest.read(path)) == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"audio_filpath": "a.wav", "duration": 1, "text": ""},
            "unknown key 'audio_filpath', did you mean 'audio_filepath'?; rename it",
        ),
        (
            {"audio_filepath": "a.wav", "Duration": 1, "text": ""},
            "unknown key 'Duration', did you mean 'duration'?; rename it",
        ),
        (
            {"audio_filepath": "a.wav", "duration": 1},
            "key 'text' is missing; add it to the line",
        ),
        (ROW | {"speeker": "x"}, "unknown key 'speeker', did you mean 'speaker'?; rename it"),
        (
            ROW | {"audio_filepath": ["a", "b"], "pauses_seconds": [1]},
            "unknown key 'pauses_seconds', did you mean 'pause_seconds'?; rename it",
        ),
        (
            ROW | {"duration": "1.5"},
            "'duration' must be a number of seconds, not '1.5'; correct the line",
        ),
        (
            ROW | {"duration": -1},
            "'duration' must be a number of seconds, not -1; correct the line",
        ),
        (
            ROW | {"duration": float("nan")},
            "'duration' must be a number of seconds, not nan; correct the line",
        ),
        (
            ROW | {"duration": True},
            "'duration' must be a number of seconds, not True; correct the line",
        ),
        (ROW | {"text": None}, "'text' must be a string, not None; correct the line"),
        (
            ROW | {"audio_filepath": []},
            "'audio_filepath' must be a path or a list of paths, not []; correct the line",
        ),
        (
            ROW | {"audio_filepath": " "},
            "'audio_filepath' must be a path or a list of paths, not ' '; correct the line",
        ),
        (
            ROW | {"audio_filepath": ["a", "b"], "pause_seconds": [1, 2]},
            "'pause_seconds' holds 2 numbers for 2 parts, which need 1; correct the line",
        ),
        (
            ROW | {"pause_seconds": 0.5},
            "'pause_seconds' must be a list, not 0.5; correct the line",
        ),
        (
            ROW | {"offset": 3.5},
            "'offset' is not supported; cut the recording into a file an utterance",
        ),
        ([1], "is not a JSON object; write {...} with audio_filepath, duration, text"),
    ],
)
def test_a_bad_line_is_named_with_the_remedy(tmp_path, row, message):
    path = write_rows(tmp_path / "m.jsonl", ROW, row)
    with pytest.raises(UserError) as error:
        manifest.read(path)
    assert str(error.value) == f"{path}:2: {message}"


def test_lines_that_are_no_json(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text("audio_filepath,duration,text\n")
    with pytest.raises(UserError) as error:
        manifest.read(path)
    assert str(error.value) == (
        f"{path}:1: is not JSON (Expecting value: line 1 column 1 (char 0)); each line must be one "
        "JSON object with audio_filepath, duration, text"
    )
    path.write_bytes(json.dumps(ROW).encode() + b'\n{"text": "\xe4"}\n')
    with pytest.raises(UserError) as error:
        manifest.read(path)
    assert str(error.value) == f"{path}:2: is not UTF-8 text; convert the manifest to UTF-8"


def test_empty_missing_and_unnamed_manifests(tmp_path):
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n \n")
    missing = tmp_path / "missing.jsonl"
    for path, message in [
        (empty, f"{empty}: holds no utterances; write one JSON object a line"),
        (
            missing,
            f"{missing}: the manifest cannot be read (No such file or directory); check the path",
        ),
        (tmp_path, f"{tmp_path}: the manifest cannot be read (Is a directory); check the path"),
        ("", "no manifest is named; give the path of a .jsonl file"),
        ([], "no manifest is named; give the path of a .jsonl file"),
    ]:
        with pytest.raises(UserError) as error:
            manifest.read(path)
        assert str(error.value) == message


def test_write_and_read_again(tmp_path):
    utterances = [
        Utterance(
            (str(tmp_path / "new" / "sub" / "ä.wav"),), 1.25, "zwölf\nneue", extra={"age": 6}
        ),
        Utterance(("/elsewhere/b.wav", str(tmp_path / "new" / "c.wav")), 3.0, "", (0.5,), "theo"),
    ]
    path = tmp_path / "new" / "out.jsonl"
    manifest.write(path, utterances)
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert rows == [
        {"audio_filepath": "sub/ä.wav", "duration": 1.25, "text": "zwölf\nneue", "age": 6},
        {
            "audio_filepath": ["/elsewhere/b.wav", "c.wav"],
            "duration": 3.0,
            "text": "",
            "pause_seconds": [0.5],
            "speaker": "theo",
        },
    ]
    again = manifest.read(path)
    assert [dataclasses.replace(u, line=0, manifest="") for u in again] == utterances
    assert [u.extra for u in again] == [{"age": 6}, {}]


def test_a_failed_write_leaves_the_old_manifest(tmp_path):
    path = write_rows(tmp_path / "m.jsonl", ROW)
    old = path.read_bytes()

    def broken():
        yield Utterance(("/a.wav",), 1.0, "a")
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        manifest.write(path, broken())
    assert path.read_bytes() == old
    assert [p.name for p in tmp_path.iterdir()] == ["m.jsonl"]


def test_utterances_check_their_parts():
    with pytest.raises(ValueError, match=r"^audio_paths must be a tuple of paths. Received: \(\)$"):
        Utterance((), 1.0, "")
    with pytest.raises(ValueError, match=r"^audio_paths must be a tuple of paths. Received: 'a'$"):
        Utterance("a", 1.0, "")
    with pytest.raises(ValueError, match=r"^2 parts need 1 pauses between them. Received: 2$"):
        Utterance(("a", "b"), 1.0, "", (1.0, 2.0))


def test_extra_is_no_part_of_comparisons():
    one = Utterance(("a",), 1.0, "", extra={"x": [1]})
    other = Utterance(("a",), 1.0, "")
    assert one == other
    assert len({one, other}) == 1


def test_all_malformed_lines_are_told_at_once(tmp_path):
    path = tmp_path / "bad.jsonl"
    good = '{"audio_filepath": "a.wav", "duration": 1, "text": ""}\n'
    path.write_text(good + "[]\n" + good + "oops\n" * 6)
    with pytest.raises(UserError) as error:
        manifest.read(path)
    told = str(error.value).split(" | ")
    assert [entry.partition(": ")[0] for entry in told[:5]] == [
        f"{path}:{n}" for n in (2, 4, 5, 6, 7)
    ]
    assert told[5:] == ["and 2 lines more"]
