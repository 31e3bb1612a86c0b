import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds2_tf import alphabet
from ds2_tf.alphabet import Alphabet
from ds2_tf.errors import UserError

UMLAUTS = Alphabet((" ", "a", "ä", "n", "e"), language="de")
DECOMPOSED_A_UMLAUT = "a\u0308"


def test_english_has_29_labels_with_the_blank_first():
    english = alphabet.english()
    assert alphabet.BLANK == 0
    assert english.num_labels == 29
    assert english.encode(" 'az") == [2, 3, 28]  # Space at the start is stripped.
    assert english.encode("a b") == [3, 1, 4]
    assert english.decode([3, 1, 4]) == "a b"


def test_line_ends_tabs_and_byte_order_marks_are_no_characters():
    text = "\ufeffHello\r\n\tbig\u00a0 \u3000world\n"
    assert alphabet.english().normalize(text) == "hello big world"
    assert alphabet.english().encode("a\r\n") == [3]
    assert not alphabet.english().unknown_characters(text)


def test_composed_and_decomposed_text_and_symbols_are_the_same():
    assert UMLAUTS.encode(DECOMPOSED_A_UMLAUT) == UMLAUTS.encode("ä") == [3]
    assert Alphabet((DECOMPOSED_A_UMLAUT,)).symbols == ("ä",)


def test_case_policies():
    upper = Alphabet(("A", "B"), case="upper")
    assert upper.encode("aB") == [1, 2]
    keep = Alphabet(("a", "B"), case="keep")
    assert keep.encode("aB") == [1, 2]
    with pytest.raises(ValueError, match=r"^characters outside the alphabet: 'A' x1, 'b' x2$"):
        keep.encode("Abb")


def test_lower_case_that_decomposes_is_composed_again():
    assert Alphabet(("i", "\u0307")).normalize("İ") == "i\u0307"  # There is no composed form.
    assert alphabet.from_transcripts(["J\u030c"]).symbols == ("ǰ",)


def test_unknown_characters_are_named_with_their_counts():
    text = "Café 3, 33\u200b"
    assert alphabet.english().unknown_characters(text) == {"é": 1, "3": 3, ",": 1, "\u200b": 1}
    with pytest.raises(ValueError) as error:  # noqa: PT011
        alphabet.english().encode(text)
    assert str(error.value) == (
        "characters outside the alphabet: ',' x1, '3' x3, 'é' (U+00E9) x1, '\\u200b' (U+200B) x1"
    )


def test_an_empty_text_has_no_labels():
    assert alphabet.english().encode(" \n") == []
    assert alphabet.english().decode([]) == ""


@pytest.mark.parametrize("label", [0, -1, 29])
def test_decode_refuses_the_blank_and_labels_outside(label):
    with pytest.raises(ValueError, match=rf"^labels must lie in \[1, 29\). Received: {label}$"):
        alphabet.english().decode([1, label])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"symbols": ()}, "symbols must name at least one character. Received: none"),
        ({"symbols": ("a", "b", "a")}, "symbols must differ. Repeated: 'a'"),
        ({"symbols": ("ab",)}, "a symbol must be one character. Received: 'ab'"),
        ({"symbols": ("",)}, "a symbol must be one character. Received: ''"),
        (
            {"symbols": ("A",)},
            "symbol 'A' never occurs in text normalised with case 'lower': it becomes 'a'",
        ),
        (
            {"symbols": ("\n",)},
            "symbol '\\u000a' (U+000A) never occurs in text normalised with case 'lower': it "
            "becomes ''",
        ),
        (
            {"symbols": ("a",), "case": "Lower"},
            "case must be one of lower, upper, keep. Received: 'Lower'",
        ),
        (
            {"symbols": ("a",), "kind": "bigram"},
            "kind must be one of character. Received: 'bigram'",
        ),
    ],
)
def test_invalid_alphabets(arguments, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        Alphabet(**arguments)
    assert str(error.value) == message


def test_from_transcripts_sorts_the_characters_that_occur():
    found = alphabet.from_transcripts(["Zwei\r\n", "DREI", "a b"], language="de")
    assert "".join(found.symbols) == " abdeirwz"
    assert (found.case, found.language) == ("lower", "de")
    chinese = alphabet.from_transcripts(["设定二十九度", "二"], language="zh")
    assert sorted(chinese.symbols) == list(chinese.symbols)
    assert chinese.num_labels == 7
    assert chinese.decode(chinese.encode("设定二十九度")) == "设定二十九度"


def test_from_transcripts_without_characters():
    with pytest.raises(UserError, match=r"^the transcripts hold no characters; check the manifest"):
        alphabet.from_transcripts(["", " \n"])


@given(st.text(max_size=40), st.sampled_from(alphabet.CASES))
def test_any_text_survives_its_own_alphabet(text, case):
    letters = Alphabet(("a",) if case != "upper" else ("A",), case)
    normalized = letters.normalize(text)
    assert letters.normalize(normalized) == normalized
    assert unicodedata.is_normalized("NFC", normalized)
    if normalized:
        own = alphabet.from_transcripts([text], case)
        assert own.decode(own.encode(text)) == normalized


def test_save_and_load(tmp_path):
    path = tmp_path / "alphabet.json"
    UMLAUTS.save(path)
    assert Alphabet.load(path) == UMLAUTS
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content == {
        "format_version": 1,
        "kind": "character",
        "case": "lower",
        "unicode": "NFC",
        "language": "de",
        "symbols": [" ", "a", "ä", "n", "e"],
    }


def test_a_file_edited_on_windows_loads(tmp_path):
    path = tmp_path / "alphabet.json"
    UMLAUTS.save(path)
    text = unicodedata.normalize("NFD", path.read_text(encoding="utf-8")).replace("\n", "\r\n")
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert Alphabet.load(path) == UMLAUTS


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"format_version": 2},
            "format_version is 2, this program reads 1; use the version of ds2_tf that wrote the "
            "file",
        ),
        ({"symbols": None}, "lacks 'symbols'; restore the file"),
        ({"Case": "upper"}, "unknown key 'Case', did you mean 'case'?; correct the file"),
        ({"unicode": "NFD"}, "unicode must be 'NFC', not 'NFD'; correct it"),
        (
            {"symbols": "ab"},
            "symbols must be a list of characters, and case, kind and language text; correct the "
            "file",
        ),
        ({"symbols": ["a", "a"]}, "symbols must differ. Repeated: 'a'; correct the file"),
    ],
)
def test_bad_files_are_told_with_the_remedy(tmp_path, changes, message):
    path = tmp_path / "alphabet.json"
    UMLAUTS.save(path)
    content = json.loads(path.read_text(encoding="utf-8")) | changes
    content = {key: value for key, value in content.items() if value is not None}
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(UserError) as error:
        Alphabet.load(path)
    assert str(error.value) == f"{path}: {message}"


def test_missing_and_broken_files(tmp_path):
    path = tmp_path / "alphabet.json"
    with pytest.raises(UserError, match=r"cannot be read \(No such file or directory\); name the"):
        Alphabet.load(path)
    for content in (b'{"symbols": [', b"\xff\xfe", b""):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"alphabet\.json: is not JSON \(.*\); restore"):
            Alphabet.load(path)
    path.write_text("[]")
    with pytest.raises(UserError, match=r"alphabet\.json: is not an alphabet; restore the file"):
        Alphabet.load(path)
