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
            {"symbols": ("a",), "kind": "trigram"},
            "kind must be one of character, bigram. Received: 'trigram'",
        ),
        (
            {"symbols": ("a", "aaa"), "kind": "bigram"},
            "a symbol must be one or two characters. Received: 'aaa'",
        ),
        (
            {"symbols": ("a", " ", " a"), "kind": "bigram"},
            "symbol ' a' never occurs in text normalised with case 'lower': it becomes 'a'",
        ),
        (
            {"symbols": ("ä", "äB"), "kind": "bigram"},
            "symbol 'äB' (U+00E4 U+0042) never occurs in text normalised with case 'lower': it "
            "becomes 'äb'",
        ),
        (
            {"symbols": ("a", "ab"), "kind": "bigram"},
            "the characters of a pair must be symbols too. Of 'ab' is missing: 'b'",
        ),
        (
            {"symbols": ("a", "aa", "aa"), "kind": "bigram"},
            "symbols must differ. Repeated: 'aa'",
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
    known = normalized.replace(alphabet.UNKNOWN, "")
    for kind in alphabet.KINDS if known.strip() else ():
        own = alphabet.from_transcripts([text], case, kind=kind)
        assert own.decode(own.encode(known)) == own.normalize(known)
        assert own.unknown_characters(text).total() == len(normalized) - len(known)


def test_bigrams_are_cut_from_the_left_of_each_word():
    pairs = alphabet.from_transcripts(["The cat sat", "a hat"], kind="bigram")
    assert pairs.symbols == (*" acehst", "ca", "ha", "sa", "th")
    assert (pairs.kind, pairs.num_labels) == ("bigram", 12)
    spelt = [pairs.decode([label]) for label in pairs.encode("the hat  a\tcats\n")]
    assert spelt == ["th", "e", " ", "ha", "t", " ", "a", " ", "ca", "t", "s"]
    assert pairs.encode("the hat") == [11, 4, 1, 9, 7]


def test_a_pair_that_the_alphabet_lacks_is_two_characters():
    pairs = Alphabet((" ", "a", "b", "ab"), kind="bigram")
    assert pairs.encode("abab") == [4, 4]
    assert pairs.encode("babab") == [3, 2, 3, 2, 3]
    assert pairs.encode("aba b") == [4, 2, 1, 3]
    with pytest.raises(ValueError, match=r"^characters outside the alphabet: 'c' x2$"):
        pairs.encode("abcc")


def test_pairs_of_named_characters_come_from_the_texts():
    pairs = alphabet.with_pairs(UMLAUTS, ["an", "NE äa\u0308", "xa ana"])
    assert pairs.symbols == (*UMLAUTS.symbols, "an", "ne", "ää")
    assert (pairs.kind, pairs.language) == ("bigram", "de")
    unknown = Alphabet(("a", alphabet.UNKNOWN))
    assert alphabet.with_pairs(unknown, ["aa a\ufffd"]).symbols == ("a", "\ufffd", "aa")


@given(st.lists(st.text("abc äé你好", max_size=12), max_size=6), st.text("abc äé你好", max_size=20))
def test_bigrams_write_every_text_of_their_characters(texts, text):
    pairs = alphabet.from_transcripts([*texts, "abc äé你好"], kind="bigram")
    labels = pairs.encode(text)
    assert pairs.decode(labels) == pairs.normalize(text)
    symbols = [pairs.decode([label]) for label in labels]
    assert all(" " not in symbol for symbol in symbols if len(symbol) == 2)
    for own in texts:
        words = pairs.normalize(own).split()
        num_labels = sum((len(word) + 1) // 2 for word in words) + max(0, len(words) - 1)
        assert len(pairs.encode(own)) == num_labels


# With a few Roman words, around which there are spaces.
MANDARIN = ["你好 OK", "好的 好的 你好 ok", "a 的你a的 好 A", "好的你", "一二三四五六七八"]


def test_coverage_keeps_the_most_frequent_characters():
    counts = {"好": 6, "的": 5, "你": 4, "a": 3, "k": 2, "o": 2} | dict.fromkeys(
        "一二三四五六七八", 1
    )
    texts = ["".join(character * n for character, n in counts.items())]
    assert len(texts[0]) == 30

    def kept(coverage):
        symbols = alphabet.from_transcripts(texts, language="zh", coverage=coverage).symbols
        assert list(symbols) == sorted(symbols)
        assert alphabet.UNKNOWN in symbols
        return set(symbols) - {alphabet.UNKNOWN}

    assert kept(0.01) == {"好"}
    assert kept(0.2) == {"好"}  # 6 of 30, exactly.
    assert kept(0.21) == {"好", "的"}
    assert kept(0.6) == {"好", "的", "你", "a"}
    assert kept(0.61) == {"好", "的", "你", "a", "k"}  # Before o, which is as frequent.
    assert kept(22 / 30) == {"好", "的", "你", "a", "k", "o"}
    assert kept(23 / 30) == {"好", "的", "你", "a", "k", "o", "一"}  # U+4E00 is the first of eight.
    assert kept(24 / 30) == {"好", "的", "你", "a", "k", "o", "一", "七"}
    assert kept(0.9999) == set(counts)
    whole = alphabet.from_transcripts(texts, language="zh")
    assert whole.symbols == tuple(sorted(counts))
    assert not whole.writes_unknown


def test_a_share_that_is_reached_exactly_is_enough():
    assert 0.56 * 25 > 14
    assert alphabet.from_transcripts(["a" * 14 + "b" * 11], coverage=0.56).symbols == (
        "a",
        "\ufffd",
    )


def test_coverage_always_keeps_the_space():
    found = alphabet.from_transcripts(["aaaa aaabbc"], coverage=0.7)
    assert found.symbols == (" ", "a", "\ufffd")


def test_rare_characters_are_written_as_unknown():
    found = alphabet.from_transcripts(MANDARIN, language="zh", coverage=0.8)
    assert found.decode(found.encode("你好 八 OK 龘")) == "你好 \ufffd ok \ufffd"
    assert found.unknown_characters("你好 八八 OK 龘") == {"八": 2, "龘": 1}
    assert found.unknown_characters("你\ufffd好") == {"\ufffd": 1}
    assert found.encode("龘") == [found.symbols.index("\ufffd") + 1]


def test_bigrams_with_rare_characters():
    found = alphabet.from_transcripts(["aabb aabb aa xa"], kind="bigram", coverage=0.9)
    assert found.symbols == (" ", "a", "b", "\ufffd", "aa", "bb")
    spelt = [found.decode([label]) for label in found.encode("aaxa xx")]
    assert spelt == ["aa", "\ufffd", "a", " ", "\ufffd", "\ufffd"]


def test_damaged_characters_of_the_transcripts_are_no_symbols():
    found = alphabet.from_transcripts(["caf\ufffd", "a"])
    assert found.symbols == ("a", "c", "f")
    with pytest.raises(ValueError, match=r"^characters outside the alphabet: '\ufffd' \(U\+FFFD\)"):
        found.encode("caf\ufffd")
    with pytest.raises(UserError, match=r"^the transcripts hold no characters; check the manifest"):
        alphabet.from_transcripts(["\ufffd"], coverage=0.5)


@pytest.mark.parametrize("coverage", [0, -0.1, 1.01, float("nan")])
def test_a_coverage_that_is_no_share(coverage):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        alphabet.from_transcripts(["a"], coverage=coverage)
    assert str(error.value) == f"coverage must lie in (0, 1]. Received: {coverage}"


@pytest.mark.parametrize(
    ("symbols", "language", "spaced"),
    [
        (" a", "en", True),
        ("a", "en", False),
        (" 你a", "zh", False),
        (" 你a", "zh-TW", False),
        (" 你a", "cmn_hans_cn", False),
        (" ก", "TH", False),
        (" あ", "ja", False),
        (" ກ", "lo", False),
        (" ក", "km", False),
        (" က", "my", False),
        (" 가", "ko", True),
        (" a", "mya", True),
    ],
)
def test_spaces_separate_words_by_alphabet_and_language(symbols, language, spaced):
    assert Alphabet(tuple(symbols), language=language).spaced == spaced


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


def test_bigrams_are_saved_in_the_same_format(tmp_path):
    pairs = alphabet.from_transcripts(["das maß", "ja"], "keep", "de", "bigram", coverage=0.99)
    pairs.save(tmp_path / "alphabet.json")
    assert Alphabet.load(tmp_path / "alphabet.json") == pairs
    content = json.loads((tmp_path / "alphabet.json").read_text(encoding="utf-8"))
    assert (content["format_version"], content["kind"]) == (1, "bigram")
    assert content["symbols"] == [*" adjms", "ß", "\ufffd", "da", "ja", "ma"]


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
