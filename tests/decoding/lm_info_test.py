import json

import pytest

from ds2_tf import alphabet
from ds2_tf.decoding import lm_info
from ds2_tf.decoding.lm_info import LanguageModelInfo
from ds2_tf.errors import UserError

INFO = LanguageModelInfo(
    "word", 3, 45, "lower", "NFC", "en", " 'abc", "00ff", {"type": "trie", "texts": []}
)


def test_what_is_saved_is_loaded(tmp_path):
    path = tmp_path / "lm.binary"
    assert lm_info.load(path) is None
    INFO.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["lm.binary.json"]
    assert lm_info.load(path) == INFO
    assert INFO.alphabet() == alphabet.Alphabet(tuple(" 'abc"))


def edited(path, **values):
    INFO.save(path)
    beside = lm_info.path_beside(path)
    content = json.loads(beside.read_text()) | values
    beside.write_text(json.dumps({k: v for k, v in content.items() if v is not None}))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (
            {"format_version": 2},
            "is not of format_version 1; build the language model again with tools.build_lm",
        ),
        (
            {"order": None},
            "lacks a field or has one too many (missing 1 required positional argument: 'order'); "
            "build the language model again",
        ),
        (
            {"ordre": 3},
            "lacks a field or has one too many (got an unexpected keyword argument 'ordre'); build "
            "the language model again",
        ),
        (
            {"unit": "syllable"},
            "unit 'syllable' or case 'lower' is unknown; build the language model again",
        ),
    ],
)
def test_a_damaged_json_is_an_error(tmp_path, values, reason):
    path = tmp_path / "lm.binary"
    edited(path, **values)
    with pytest.raises(UserError) as error:
        lm_info.load(path)
    assert str(error.value) == f"{path}.json: {reason}"


def test_no_json_is_an_error(tmp_path):
    (tmp_path / "lm.binary.json").write_text("{")
    with pytest.raises(UserError, match="lm.binary.json: is not JSON .*; build the language model"):
        lm_info.load(tmp_path / "lm.binary")
