"""Folders with manifests: one or several, with and without splits and transcripts."""

import json

import pytest

from ds2_tf import corpora
from ds2_tf.errors import UserError


def write(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps({"duration": 1.5, "text": "x"} | row) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")


def read(source):
    skipped = []
    rows = list(corpora.read("manifests", source, skipped))
    assert skipped == []
    return rows


def test_the_split_is_the_rows_or_the_folders_name(tmp_path):
    write(
        tmp_path / "children/manifest.jsonl",
        {"audio_filepath": "a/1.opus", "speaker": "ann", "split": "train", "age": 6},
        {"audio_filepath": "a/2.opus", "speaker": "bob", "split": "test"},
    )
    write(tmp_path / "noise/manifest.jsonl", {"audio_filepath": "dog.opus", "text": ""})
    (tmp_path / "text").mkdir()
    rows = read(tmp_path)
    assert [(split, u.audio_path, u.transcript, u.speaker) for split, u in rows] == [
        ("train", f"{tmp_path}/children/a/1.opus", "x", "ann"),
        ("test", f"{tmp_path}/children/a/2.opus", "x", "bob"),
        ("noise", f"{tmp_path}/noise/dog.opus", "", ""),
    ]
    assert rows[0][1].extra == {"split": "train", "age": 6}
    assert rows[0][1].duration_seconds == 1.5


def test_a_folder_with_its_own_manifest(tmp_path, monkeypatch):
    write(tmp_path / "digits/manifest.jsonl", {"audio_filepath": "0.flac"})
    write(tmp_path / "digits/old/manifest.jsonl", {"audio_filepath": "9.flac"})
    monkeypatch.chdir(tmp_path / "digits")
    assert [(split, u.audio_path) for split, u in read(".")] == [
        ("digits", f"{tmp_path}/digits/0.flac")
    ]


def test_a_folder_without_manifests_is_refused(tmp_path):
    with pytest.raises(UserError) as raised:
        read(tmp_path)
    assert str(raised.value) == (
        f"{tmp_path}: no manifest.jsonl in this folder or its subfolders; name the folder that "
        "holds it"
    )


def test_a_broken_manifest_is_named(tmp_path):
    write(tmp_path / "a/manifest.jsonl", {"audio_filepath": "0.flac"}, {"audio_filpath": "1.flac"})
    with pytest.raises(UserError) as raised:
        read(tmp_path)
    assert str(raised.value).startswith(f"{tmp_path}/a/manifest.jsonl:2: unknown key")
