import re

import pytest

from ds2_tf.decoding import word_lists
from ds2_tf.errors import UserError
from tests.decoding.beams import ENGLISH


def test_hot_words_are_normalised():
    found = word_lists.hot_words("Ann:5, New  York:-1.5,", ENGLISH)
    assert found == {"ann": 5.0, "new york": -1.5}
    assert word_lists.hot_words("", ENGLISH) == {}


def test_hot_words_from_a_file(tmp_path):
    path = tmp_path / "hot.txt"
    path.write_bytes(b"\xef\xbb\xbfann:5\r\n\r\nnew york: 3\r\n")
    assert word_lists.hot_words(f"@{path}", ENGLISH) == {"ann": 5.0, "new york": 3.0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "ann",
            "'ann' has no boost; write the phrase, a colon and a number, as in 'new york:3'",
        ),
        (
            "ann:5,bob:much",
            "'bob:much' has no boost; write the phrase, a colon and a number, as in 'new york:3'",
        ),
        (
            "ann:inf",
            "'ann:inf' has no boost; write the phrase, a colon and a number, as in 'new york:3'",
        ),
        (" :5", "there is no phrase before ':5'; write one"),
        ("ann:5,Ann:3", "'ann' occurs twice; give it one boost"),
        (
            "na\u00efve c3:5",
            "'na\u00efve c3' has characters outside the alphabet: '3' x1, '\u00ef' "
            "(U+00EF) x1; leave it out or spell it otherwise",
        ),
    ],
)
def test_hot_words_that_are_none(text, message):
    with pytest.raises(UserError, match=f"^hot words: {re.escape(message)}$"):
        word_lists.hot_words(text, ENGLISH)


def test_files_are_named_with_the_line(tmp_path):
    path = tmp_path / "hot.txt"
    path.write_text("ann:5\nbob\n")
    with pytest.raises(UserError, match=rf"^{path}:2: 'bob' has no boost; "):
        word_lists.hot_words(f"@{path}", ENGLISH)
    missing = tmp_path / "none.txt"
    message = f"{missing}: there is no such file; name a file of hot words"
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        word_lists.hot_words(f"@{missing}", ENGLISH)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=rf"^{path}: is not UTF-8; save it as UTF-8$"):
        word_lists.hot_words(f"@{path}", ENGLISH)


def test_allowed_words(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("Yes\nno maybe\nyes\n")
    assert word_lists.allowed_words(path, ENGLISH) == ["yes", "no", "maybe"]
    path.write_text("yes\n\nno 7\n")
    message = f"{path}:3: '7' has characters outside the alphabet: '7' x1; "
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        word_lists.allowed_words(path, ENGLISH)
    path.write_text("\n")
    with pytest.raises(UserError, match=rf"^{path}: holds no word; write a word on each line$"):
        word_lists.allowed_words(path, ENGLISH)
