import concurrent.futures
import ctypes
import dataclasses
import json
import logging
import math
import multiprocessing
import pathlib
import pickle
import random
import shutil
import subprocess
import sys

import numpy as np
import pytest

from ds2_tf import alphabet
from ds2_tf.alphabet import Alphabet
from ds2_tf.decoding import language_model, lm_info
from ds2_tf.decoding.language_model import LanguageModel
from ds2_tf.errors import UserError
from ds2_tf.native import compiling, kenlm
from tests import language_models
from tests.language_models import ARPA, BINARY, QUANTIZED, ArpaModel

ENGLISH = alphabet.english()


@pytest.fixture(scope="module", autouse=True)
def _library():
    language_models.require_library()


@pytest.fixture
def copy(tmp_path):
    """A copy of the small model with its JSON."""
    for path in (BINARY, lm_info.path_beside(BINARY)):
        shutil.copy(path, tmp_path)
    return tmp_path / BINARY.name


def some_sentences():
    words = [*LanguageModel.load(BINARY).vocabulary[1:], "zebra", "<unk>", "<s>", "the", "in"]
    generator = random.Random(0)
    return [generator.choices(words, k=length) for length in range(12) for _ in range(20)]


@pytest.mark.parametrize("path", [BINARY, ARPA])
def test_scores_are_the_definitions(path):
    model, oracle = LanguageModel.load(path, ENGLISH), ArpaModel(ARPA)
    for sentence in some_sentences():
        plain = ["<unk>" if token in ("<s>", "</s>") else token for token in sentence]
        np.testing.assert_allclose(model.score(sentence), oracle.sentence(plain), atol=2e-5)


def test_a_quantised_model_is_near():
    model, oracle = LanguageModel.load(QUANTIZED, ENGLISH), ArpaModel(ARPA)
    for line in ("turn on the light in the kitchen", "good night", "the the zebra"):
        np.testing.assert_allclose(
            model.score(line.split()), oracle.sentence(line.split()), atol=0.1
        )


def test_probabilities_sum_to_one():
    oracle = ArpaModel(ARPA)
    words = {ngram[0] for ngram in oracle.entries if len(ngram) == 1} - {"<s>"}
    for context in (["<s>"], ["<s>", "turn"], ["in", "the"], ["zebra", "late"]):
        total = sum(math.exp(oracle.score(context, word)) for word in words)
        # <unk> is two unigrams of lmplz's in one: where it has a longer n-gram, a rest is missing.
        assert total == pytest.approx(1, abs=0.01)


class State(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


class Functions(ctypes.Structure):
    _fields_ = [
        ("model", ctypes.c_void_p),
        ("vocabulary_size", ctypes.c_uint32),
        ("end_of_sentence", ctypes.c_uint32),
        ("begin_sentence", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(State))),
        (
            "score",
            ctypes.CFUNCTYPE(
                ctypes.c_float,
                ctypes.c_void_p,
                ctypes.POINTER(State),
                ctypes.c_uint32,
                ctypes.POINTER(State),
            ),
        ),
    ]


def follow(functions, tokens, garbage):
    """Scores and states of tokens, in memory that held something else before."""
    states = [State((ctypes.c_ubyte * 64)(*[garbage] * 64)) for _ in range(len(tokens) + 1)]
    functions.begin_sentence(functions.model, states[0])
    scores = [
        functions.score(functions.model, states[i], token, states[i + 1])
        for i, token in enumerate(tokens)
    ]
    return scores, [bytes(state.bytes) for state in states]


def test_the_table_of_functions_is_what_python_sees():
    model = LanguageModel.load(BINARY, ENGLISH)
    functions = Functions.from_address(model.native)
    assert functions.vocabulary_size == len(model.vocabulary) == model.info.vocabulary_size + 3
    assert model.vocabulary[functions.end_of_sentence] == "</s>"
    sentence = ["turn", "on", "the", "zebra", "in", "the", "kitchen"]
    tokens = [*map(model.index, sentence), functions.end_of_sentence]
    scores, states = follow(functions, tokens, garbage=0)
    np.testing.assert_array_equal(np.float32(scores), model.score(sentence))
    assert follow(functions, tokens, garbage=255) == (scores, states)


def test_states_are_equal_bytes_when_the_model_cannot_tell_them_apart():
    model = LanguageModel.load(BINARY, ENGLISH)
    functions = Functions.from_address(model.native)
    ends = {
        follow(functions, [model.index(word) for word in sentence.split()], garbage)[1][-1]
        for garbage, sentence in enumerate(
            ("turn on the light in the", "close the window in the", "zebra zebra in the", "in the")
        )
    }
    assert len(ends) == 1
    other = follow(functions, [model.index("in"), model.index("hall")], 0)[1][-1]
    assert other not in ends


def test_indices_and_vocabulary():
    model = LanguageModel.load(BINARY, ENGLISH)
    assert model.vocabulary[0] == "<unk>"
    assert len(set(model.vocabulary)) == len(model.vocabulary)
    for token in ("turn", "don't", "it's"):
        assert model.vocabulary[model.index(token)] == token
    for token in ("zebra", "<unk>", "<s>", "</s>", ""):
        assert model.index(token) == language_model.UNKNOWN_INDEX == 0


def test_the_json_tells():
    info = LanguageModel.load(BINARY, ENGLISH).info
    assert (info.unit, info.order, info.vocabulary_size, info.case) == ("word", 3, 45, "lower")
    assert info.alphabet() == ENGLISH
    assert info.build["texts"][0]["name"] == "rooms.txt"


def test_a_model_without_json_is_taken_with_its_unit_guessed(caplog):
    with caplog.at_level(logging.INFO, logger="absl"):
        info = LanguageModel.load(ARPA, ENGLISH).info
    assert (info.unit, info.order, info.vocabulary_size, info.case) == ("word", 3, 45, "")
    assert info.alphabet() is None
    assert caplog.messages == [
        f"{ARPA} has no JSON beside it; by its vocabulary its unit is taken to be 'word'"
    ]
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="absl"):
        assert LanguageModel.load(ARPA, unit="mixed").info.unit == "mixed"
    assert not caplog.messages


def write_arpa(path, words):
    lines = ["\\data\\", f"ngram 1={len(words) + 3}", "ngram 2=1", "", "\\1-grams:"]
    lines += [f"-1\t{word}\t0" for word in ("<unk>", "<s>", "</s>", *words)]
    lines += ["", "\\2-grams:", f"-1\t<s> {words[0]}"]
    path.write_text("\n".join([*lines, "", "\\end\\", ""]), encoding="utf-8")
    return path


CHINESE = Alphabet(tuple("一三上下不中人 abc"), language="zh")


@pytest.mark.parametrize(
    ("words", "unit"),
    [
        (["hello", "a"], "word"),
        (["a", "b", "\u2581"], "character"),
        (["一", "三"], "character"),
        (["一", "三", "abc"], "mixed"),
        (["一三", "上", "abc"], "word"),
    ],
)
def test_units_are_guessed_from_the_vocabulary(tmp_path, words, unit):
    assert LanguageModel.load(write_arpa(tmp_path / "lm.arpa", words)).info.unit == unit


def check_error(path, given, message):
    with pytest.raises(UserError) as error:
        LanguageModel.load(path, given)
    assert str(error.value) == message


AGAIN = "build the language model with this alphabet"


def test_another_case_is_an_error(tmp_path):
    shouting = dataclasses.replace(ENGLISH, symbols=tuple(" 'ABCDE"), case="upper")
    check_error(
        BINARY,
        shouting,
        f'{BINARY}: does not fit the alphabet (en, upper case, 7 symbols: " \'ABCDE"): its text '
        f"is in lower case, the alphabet's in upper case; {AGAIN}",
    )


def test_a_vocabulary_that_cannot_be_written_is_an_error(tmp_path, caplog):
    path = write_arpa(tmp_path / "lm.arpa", ["ONE", "TWO", *["x" * n for n in range(1, 18)]])
    message = (
        f"{path}: does not fit the alphabet (en, lower case, 28 symbols: "
        '" \'abcdefghijklmnopqrstuvwxyz"): of its vocabulary 11% cannot be written, such as '
        f"'ONE', 'TWO'; {AGAIN}"
    )
    check_error(path, ENGLISH, message)
    write_arpa(path, ["ONE", "TWO", *["x" * n for n in range(1, 19)]])
    with caplog.at_level(logging.INFO, logger="absl"):
        LanguageModel.load(path, ENGLISH)
    assert caplog.messages[-1] == (
        f"{path}: 2 of 20 tokens cannot be written in the alphabet, and so not be recognised"
    )


def test_decomposed_unicode_cannot_be_written(tmp_path):
    german = Alphabet(tuple(" aäbu"), language="de")
    path = write_arpa(tmp_path / "lm.arpa", ["ba\u0308u"])
    with pytest.raises(UserError, match="of its vocabulary 100% cannot be written"):
        LanguageModel.load(path, german)
    LanguageModel.load(write_arpa(path, ["b\u00e4u"]), german)


def test_words_do_not_fit_text_without_spaces(tmp_path):
    path = write_arpa(tmp_path / "lm.arpa", ["一三", "上"])
    with pytest.raises(UserError, match="it knows words, which no spaces separate in the alphabet"):
        LanguageModel.load(path, CHINESE)


@pytest.mark.parametrize(
    ("given", "words", "state"),
    [(ENGLISH, ["a", "b"], "lacks"), (CHINESE, ["一", "\u2581"], "has")],
)
def test_the_space_must_be_a_token_where_the_alphabet_has_it(tmp_path, given, words, state):
    path = write_arpa(tmp_path / "lm.arpa", words)
    with pytest.raises(UserError) as error:
        LanguageModel.load(path, given)
    assert f"it {state} the token of the space between words (U+2581); {AGAIN}" in str(error.value)


def test_fitting_models_of_mandarin(tmp_path):
    for words in (["一", "三"], ["一", "abc"]):
        LanguageModel.load(write_arpa(tmp_path / "lm.arpa", words), CHINESE)


def change(path, **values):
    beside = lm_info.path_beside(path)
    beside.write_text(json.dumps(json.loads(beside.read_text()) | values))


def test_another_file_than_the_json_describes_is_an_error(copy):
    LanguageModel.load(copy, ENGLISH)
    message = (
        f"{copy}: is not the file that {copy}.json describes; copy both files again, or build the "
        "language model again"
    )
    change(copy, order=4)
    check_error(copy, ENGLISH, message)
    change(copy, order=3, sha256="0" * 64)
    check_error(copy, ENGLISH, message)
    LanguageModel.load(copy, ENGLISH, verify=False)
    shutil.copy(QUANTIZED, copy)
    change(copy, sha256=lm_info.checksum(BINARY))
    check_error(copy, ENGLISH, message)


def test_the_json_s_unit_holds(copy):
    with pytest.raises(UserError) as error:
        LanguageModel.load(copy, ENGLISH, unit="character")
    assert str(error.value) == (
        f"{copy}: its unit is 'word' (says its JSON), not 'character'; leave the unit out"
    )
    change(copy, unicode="NFD")
    with pytest.raises(UserError, match="its text is in NFD, not in NFC"):
        LanguageModel.load(copy, ENGLISH)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "Empty file|End of file|too short"),
        (b"no model at all\n" * 100, "FormatLoadException"),
        (BINARY.read_bytes()[:1000], ""),
        (b"\x1f\x8b" + bytes(100), ""),
    ],
)
def test_no_model(tmp_path, content, reason):
    path = tmp_path / "lm.binary"
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        LanguageModel.load(path)
    message = str(error.value)
    assert message.startswith(f"{path}: KenLM cannot read it (")
    assert message.endswith("); name a binary or ARPA file")
    assert "\n" not in message


def test_no_file(tmp_path):
    path = tmp_path / "lm.binary"
    check_error(path, None, f"{path}: there is no such file; name a language model's file")


def test_no_compiler(monkeypatch):
    def fail():
        raise compiling.BuildError(
            "no C++ compiler was found; install one (Debian: apt install g++)"
        )

    monkeypatch.setattr(kenlm, "library", fail)
    language_model._library.cache_clear()
    try:
        with pytest.raises(UserError) as error:
            LanguageModel.load(BINARY)
    finally:
        language_model._library.cache_clear()
    assert str(error.value) == (
        "language models need a library that is compiled once: no C++ compiler was found; install "
        "one (Debian: apt install g++)"
    )


def test_pickled_models_are_opened_again(copy, monkeypatch):
    model = LanguageModel.load(copy, ENGLISH)
    monkeypatch.setattr(lm_info, "checksum", None)  # Not read again.
    again = pickle.loads(pickle.dumps(model))
    assert (again.path, again.alphabet, again.info) == (model.path, ENGLISH, model.info)
    np.testing.assert_array_equal(again.score(["turn", "on"]), model.score(["turn", "on"]))
    unit = pickle.loads(pickle.dumps(LanguageModel.load(ARPA, unit="mixed"))).info.unit
    assert unit == "mixed"


def score_in_another_process(model):
    return model.score(["turn", "on"])


def test_spawned_processes_can_use_a_model():
    model = LanguageModel.load(BINARY, ENGLISH)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        scores = pool.apply(score_in_another_process, (model,))
    np.testing.assert_array_equal(scores, model.score(["turn", "on"]))


def test_threads_share_a_model():
    model, sentences = LanguageModel.load(BINARY, ENGLISH), some_sentences()
    alone = [model.score(sentence) for sentence in sentences]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for score, expected in zip(pool.map(model.score, sentences), alone, strict=True):
                np.testing.assert_array_equal(score, expected)


def test_it_needs_neither_tensorflow_nor_a_preloaded_file():
    code = (
        "import sys; sys.modules['tensorflow'] = None\n"
        "from ds2_tf.decoding.language_model import LanguageModel\n"
        f"print(LanguageModel.load({str(BINARY)!r}, preload=False).score(['turn'])[0])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=pathlib.Path(__file__).parents[2],
    )
    assert float(result.stdout) == pytest.approx(ArpaModel(ARPA).score(["<s>"], "turn"), abs=1e-5)


def test_perplexity():
    model, oracle = LanguageModel.load(BINARY, ENGLISH), ArpaModel(ARPA)
    texts = ["turn on the zebra", "good morning", ""]
    result = model.perplexity(texts)
    scores = [oracle.sentence(text.split()) for text in texts]
    total = sum(map(sum, scores))
    assert (result.sentences, result.tokens, result.unknown) == (3, 6, 1)
    assert result.unknown_rate == 1 / 6
    assert result.log_probability == pytest.approx(total, abs=1e-4)
    assert result.perplexity == pytest.approx(math.exp(-total / 9), rel=1e-5)
    known = total - scores[0][3]
    assert result.known_perplexity == pytest.approx(math.exp(-known / 8), rel=1e-5)


def test_perplexity_of_nothing():
    result = LanguageModel.load(BINARY).perplexity([])
    assert result.unknown_rate == 0
    assert math.isnan(result.perplexity)
