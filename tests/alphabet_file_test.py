"""Files that list an alphabet: what is tolerated, and what is told with file and line."""

import unicodedata

import pytest

from ds2_tf import alphabet, alphabet_file
from ds2_tf.alphabet import Alphabet
from ds2_tf.errors import UserError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "characters.txt"


def error_of(path, content, case="lower"):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError) as error:
        alphabet_file.read(path, case)
    return str(error.value)


def test_a_character_a_line(path):
    path.write_text(" \n你\n好\n#\na", encoding="utf-8")
    found = alphabet_file.read(path, "keep", "zh")
    assert found == Alphabet((" ", "你", "好", "#", "a"), "keep", "zh")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_what_editors_do_to_a_file_is_tolerated(path, end, form):
    text = end.join(["", "é", "", " ", "ǖ", "한", "", ""])
    path.write_bytes(b"\xef\xbb\xbf" + unicodedata.normalize(form, text).encode())
    assert alphabet_file.read(path).symbols == ("é", " ", "ǖ", "한")


def test_the_symbol_for_unknown_characters_may_be_listed(path):
    path.write_text("a\n\ufffd\n", encoding="utf-8")
    assert alphabet_file.read(path).encode("ax") == [1, 2]


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        ("a\r\n\r\nbc\r\n", ":3", "holds 2 characters, 'bc'; write one character a line"),
        ("a\n  \n", ":2", "holds 2 characters, '  '; write one character a line"),
        ("a \n", ":1", "holds 2 characters, 'a '; write one character a line"),
        ("é\na\n\ne\u0301\n", ":4", "'é' stands on line 1 already; remove one of them"),
        (" \na\n \n", ":3", "' ' stands on line 1 already; remove one of them"),
        (
            "a\nB\n",
            ":2",
            "symbol 'B' never occurs in text normalised with case 'lower': it becomes 'b'; remove "
            "the line, or change alphabet.case",
        ),
        (
            "a\n\u3000\n",
            ":2",
            "symbol '\\u3000' (U+3000) never occurs in text normalised with case 'lower': it "
            "becomes ''; remove the line, or change alphabet.case",
        ),
        ("", "", "holds no characters; write one character a line"),
        ("\ufeff\n\n", "", "holds no characters; write one character a line"),
        (b"a\nb\n\xe4\n", ":3", "is not UTF-8; save the file as UTF-8"),
        ("a\n".encode("utf-16"), ":1", "is not UTF-8; save the file as UTF-8"),
    ],
)
def test_a_bad_line_is_named(path, content, place, message):
    assert error_of(path, content) == f"{path}{place}: {message}"


def test_a_missing_file_and_a_folder(path, tmp_path):
    remedy = "name a text file with a character a line, or an alphabet.json"
    for name, reason in ((path, "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(UserError) as error:
            alphabet_file.read(name)
        assert str(error.value) == f"{name}: cannot be read ({reason}); {remedy}"


def test_a_wrong_case_is_not_the_file_s_fault(path):
    path.write_text("a")
    with pytest.raises(ValueError, match=r"^case must be one of .*. Received: 'title'$"):
        alphabet_file.read(path, "title")


def test_an_alphabet_json_is_taken_as_it_is(tmp_path):
    path = tmp_path / "alphabet.JSON"
    pairs = alphabet.from_transcripts(["das ist"], "keep", "de", "bigram")
    pairs.save(path)
    assert alphabet_file.read(path, "keep", "de") == pairs
    with pytest.raises(UserError) as error:
        alphabet_file.read(path, "lower", "de")
    assert str(error.value) == (
        f"{path}: has case 'keep', the config 'lower'; set alphabet.case to 'keep'"
    )
    with pytest.raises(UserError) as error:
        alphabet_file.read(path, "keep")
    assert str(error.value) == (
        f"{path}: has language 'de', the config 'en'; set alphabet.language to 'de'"
    )
