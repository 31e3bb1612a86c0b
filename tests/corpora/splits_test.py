"""Rows into splits, by their own split and by speaker."""

import pytest

from ds2_tf.corpora import splits
from ds2_tf.errors import UserError
from ds2_tf.manifest import Utterance


def utterance(line: int, speaker: str = "", **extra) -> Utterance:
    return Utterance(
        (f"/{line}.wav",), 1.0, "x", (), speaker, line, "/c/manifest.jsonl", dict(extra)
    )


ROWS = [utterance(1, "777"), utterance(2, "1988"), utterance(3, "84"), utterance(4)]


def test_rows_keep_their_order_within_a_split():
    grouped = splits.group(zip(["a", "b", "a", "b"], ROWS, strict=True))
    assert grouped == {"a": [ROWS[0], ROWS[2]], "b": [ROWS[1], ROWS[3]]}


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "", "two words"])
def test_a_split_that_cannot_name_a_file_is_refused(name):
    with pytest.raises(UserError) as raised:
        splits.group([("train", ROWS[0]), (name, ROWS[1])])
    assert str(raised.value) == (
        f"/c/manifest.jsonl:2: split {name!r} cannot name a file; use letters, digits, '_', '-', "
        "'+' and '.'"
    )


def test_named_speakers_go_to_dev_and_test_all_others_to_train():
    divided = splits.by_speaker({"a": ROWS[:2], "b": ROWS[2:]}, ["777"], ["1988", "84"])
    assert divided == {"dev": [ROWS[0]], "test": [ROWS[1], ROWS[2]], "train": [ROWS[3]]}


def test_a_rows_own_split_follows():
    rows = [utterance(1, "a", split="test", age=6), utterance(2, "b", age=7)]
    divided = splits.by_speaker({"test": rows}, ["b"], [])
    assert divided["train"][0].extra == {"split": "train", "age": 6}
    assert divided["dev"][0].extra == {"age": 7}
    assert rows[0].extra == {"split": "test", "age": 6}


@pytest.mark.parametrize(
    ("dev", "test", "message"),
    [
        (["778"], [], "--dev_speakers: speaker '778' does not occur; near: '777'"),
        (
            ["84"],
            ["zoe"],
            "--test_speakers: speaker 'zoe' does not occur; there are '1988', '777', '84'",
        ),
        (["84"], ["84"], "--test_speakers: '84' is also in --dev_speakers; name it in one of them"),
    ],
)
def test_wrong_speakers_are_refused(dev, test, message):
    with pytest.raises(UserError) as raised:
        splits.by_speaker({"a": ROWS}, dev, test)
    assert str(raised.value) == message


def test_a_source_without_speakers_says_so():
    with pytest.raises(UserError) as raised:
        splits.by_speaker({"a": ROWS[3:]}, ["ann"], [])
    assert str(raised.value) == (
        "--dev_speakers: speaker 'ann' does not occur; the rows name no speakers"
    )
