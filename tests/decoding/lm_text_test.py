import pytest

from ds2_tf import alphabet
from ds2_tf.alphabet import UNKNOWN, Alphabet
from ds2_tf.decoding import lm_text
from ds2_tf.decoding.lm_text import TextForm

ENGLISH = alphabet.english()
GERMAN = Alphabet(tuple(" -abdeknsu\u00e4\u00f6\u00fc\u00df"), language="de")
CHINESE = Alphabet(tuple("一三上下不中人 abc"), language="zh")


@pytest.mark.parametrize(
    ("text", "unit", "spaced", "expected"),
    [
        ("don't turn it", "word", True, ["don't", "turn", "it"]),
        ("it is", "character", True, ["i", "t", "\u2581", "i", "s"]),
        ("中人 abc", "character", False, ["中", "人", "a", "b", "c"]),
        ("中人abc上 a b", "mixed", False, ["中", "人", "abc", "上", "a", "b"]),
        ("abc", "mixed", False, ["abc"]),
        ("ひらカナㄅไทยꩠ", "mixed", False, list("ひらカナㄅไทยꩠ")),
        ("don't 12中", "mixed", True, ["don't", "12", "中"]),
        ("", "word", True, []),
        ("", "character", True, []),
        ("", "mixed", True, []),
    ],
)
def test_tokens(text, unit, spaced, expected):
    assert lm_text.tokens(text, unit, spaced) == expected


def test_another_unit_is_an_error():
    message = "^unit must be one of word, character, mixed. Received: 'syllable'$"
    with pytest.raises(ValueError, match=message):
        lm_text.tokens("a", "syllable", True)


def test_ideographs_are_the_scripts_without_spaces():
    assert all(map(lm_text.is_ideograph, "一龥㐀\U00020000々〇あアㄅกກက\u1780"))
    assert not any(map(lm_text.is_ideograph, "aäß'1-жα한देא。 "))


def test_default_units():
    assert lm_text.default_unit(ENGLISH) == lm_text.default_unit(GERMAN) == "word"
    assert lm_text.default_unit(CHINESE) == "character"
    assert lm_text.default_unit(Alphabet(tuple("abc"))) == "character"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Well-known, isn't it?", "well known isn't it"),
        ("\ufeffIt\u2019s 'quoted' \u2018so\u2019\r\n", "it's 'quoted' so"),
        ("5 % of $20_", "5 of 20"),
        ("na\u0131ve\u00a0caf\u00e9", "na\u0131ve caf\u00e9"),
        ("...", ""),
        (" \t", ""),
    ],
)
def test_the_form_of_english(text, expected):
    assert TextForm(ENGLISH)(text) == expected


def test_the_alphabet_s_own_punctuation_stays():
    assert TextForm(GERMAN)("BUNDES-bands, kaed\u2019s a\u0308b") == "bundes-bands kaed s äb"
    assert TextForm(Alphabet(tuple(" .,ab")))("A, b. a! a\u2019b") == "a, b. a a b"
    assert TextForm(CHINESE)("中，人。ABC") == "中 人 abc"


def test_punctuation_can_be_kept():
    assert TextForm(ENGLISH, keep_punctuation=True)("It\u2019s, so") == "it\u2019s, so"


def test_what_transcripts_write_as_unknown_is_written_so():
    form = TextForm(Alphabet(tuple(sorted({*" 中人", UNKNOWN})), language="zh"))
    assert form("中龥,人") == f"中{UNKNOWN} 人"
    assert TextForm(ENGLISH)("caf\u00e9") == "caf\u00e9"


def test_transcripts_are_left_as_they_are():
    text = "'tis the rock 'n' roll"
    assert TextForm(ENGLISH)(text) == ENGLISH.normalize(text) == text


def test_what_the_alphabet_cannot_write():
    form = TextForm(ENGLISH)
    assert form.outside("caf\u00e9 12 it's") == ["\u00e9", "1", "2"]
    assert form.writes("it's")
    assert form.writes(lm_text.SPACE)
    assert not form.writes("12th")
    bigrams = alphabet.with_pairs(ENGLISH, ["it is"])
    assert TextForm(bigrams).writes("strange")
