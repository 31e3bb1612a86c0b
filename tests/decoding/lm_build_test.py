import gzip
import logging

import numpy as np
import pytest

from ds2_tf import alphabet
from ds2_tf.alphabet import Alphabet
from ds2_tf.decoding import lm_build, lm_info
from ds2_tf.decoding.language_model import LanguageModel
from ds2_tf.decoding.lm_build import BuildOptions
from ds2_tf.errors import UserError
from ds2_tf.native import kenlm
from tests import language_models
from tests.language_models import ARPA, TEXT

ENGLISH = alphabet.english()


@pytest.fixture
def programs():
    language_models.require_programs()


def build(folder, text, given=ENGLISH, **options):
    """Builds a model of a text, or of the file at a path."""
    if isinstance(text, str):
        path = folder / "text.txt"
        path.write_text(text, encoding="utf-8")
        text = path
    return lm_build.build(
        [str(text)], given, folder / "out" / "lm.binary", BuildOptions(**options), progress=False
    )


def test_it_makes_a_binary_file_and_its_json(programs, tmp_path):
    built = build(tmp_path, TEXT, order=3, arpa=str(tmp_path / "kept.arpa"))
    assert sorted(path.name for path in built.path.parent.iterdir()) == [
        "lm.binary",
        "lm.binary.json",
    ]
    model = LanguageModel.load(built.path, ENGLISH)
    assert model.info == lm_info.load(built.path) == built.info
    assert (model.info.unit, model.info.order, model.info.vocabulary_size) == ("word", 3, 45)
    record = model.info.build
    assert record["discount_fallback"] is True
    assert record["num_ngrams"] == built.num_ngrams == [48, 97, 117]
    assert record["texts"][0]["sha256"] == lm_info.checksum(TEXT)
    oracle = language_models.ArpaModel(tmp_path / "kept.arpa")
    sentence = ["turn", "on", "the", "zebra"]
    np.testing.assert_allclose(model.score(sentence), oracle.sentence(sentence), atol=1e-4)


def test_the_committed_model_is_what_is_built(programs, tmp_path):
    build(tmp_path, TEXT, order=3, arpa=str(tmp_path / "kept.arpa"))
    ours, theirs = (
        language_models.ArpaModel(path).entries for path in (tmp_path / "kept.arpa", ARPA)
    )
    assert ours.keys() == theirs.keys()
    for ngram, values in ours.items():
        assert values == pytest.approx(theirs[ngram], abs=1e-5), ngram


@pytest.mark.parametrize("text", ["yes", "yes\nno\n", "a b c\n", "yes\n" * 100, "a b\nb a\na b\n"])
@pytest.mark.parametrize("structure", ["trie", "probing"])
def test_tiny_texts_are_enough(programs, tmp_path, caplog, text, structure):
    with caplog.at_level(logging.INFO, logger="absl"):
        built = build(tmp_path, text, structure=structure)
    assert built.info.build["discount_fallback"] is True
    assert any("lmplz --discount_fallback" in message for message in caplog.messages)
    model = LanguageModel.load(built.path, ENGLISH)
    for word in text.split():
        assert model.index(word) != 0
    assert np.isfinite(model.score(text.split())).all()


def test_quantised_models_are_smaller_and_near(programs, tmp_path):
    generator = np.random.default_rng(0)
    words = [f"{a}{b}" for a in "bcdfghklmnprst" for b in "aeiou"]
    text = "\n".join(" ".join(generator.choice(words, 8)) for _ in range(3000))
    exact = build(tmp_path, text, order=3)
    model = LanguageModel.load(exact.path)
    scores, size = model.score(["ba", "di", "ko"]), exact.path.stat().st_size
    small = build(tmp_path, text, order=3, quantize_bits=8)
    assert small.path.stat().st_size < 0.7 * size
    np.testing.assert_allclose(
        LanguageModel.load(small.path).score(["ba", "di", "ko"]), scores, atol=0.1
    )
    pruned = build(tmp_path, text, order=3, prune=(0, 0, 1))
    assert pruned.num_ngrams[:2] == exact.num_ngrams[:2]
    assert pruned.num_ngrams[2] < exact.num_ngrams[2] / 2


def test_a_limited_vocabulary_and_the_report(programs, tmp_path):
    built = build(tmp_path, TEXT, order=2, vocabulary_limit=10)
    model = LanguageModel.load(built.path, ENGLISH)
    assert model.info.vocabulary_size == 10
    assert model.index("the") != 0
    assert model.index("alarm") == 0
    assert model.score(["alarm"])[0] > np.log(0.05)  # <unk> is as probable as all those together.
    lines = lm_build.report(built).splitlines()
    assert lines[0] == "text        30 sentences, 165 tokens (word)"
    assert lines[1].startswith("vocabulary  10 of 45 tokens, which cover ")
    assert lines[2] == (
        "outside     1 tokens hold characters that the alphabet lacks, and count as <unk>: 7 (1)"
    )
    assert lines[3].startswith("left out    ")


def test_characters_of_english_and_mandarin(programs, tmp_path):
    model = LanguageModel.load(
        build(tmp_path, "it is\nis it\nso it is\n", unit="character").path, ENGLISH
    )
    assert model.tokens("it is") == ["i", "t", "\u2581", "i", "s"]
    assert model.info.vocabulary_size == 5
    mandarin = Alphabet(tuple("一三上下不中人 abc"), language="zh")
    path = tmp_path / "zh.txt.gz"
    path.write_bytes(gzip.compress("中人，一上\r\n中人下。abc".encode("gb18030")))
    model = LanguageModel.load(build(tmp_path, path, mandarin, encoding="gb18030").path, mandarin)
    assert model.info.unit == "character"
    assert set(model.vocabulary) == {"<unk>", "<s>", "</s>", *"中人一上下abc"}
    model = LanguageModel.load(
        build(tmp_path, path, mandarin, encoding="gb18030", unit="mixed").path, mandarin
    )
    assert set(model.vocabulary) == {"<unk>", "<s>", "</s>", *"中人一上下", "abc"}


def test_an_earlier_model_stays_when_building_fails(programs, tmp_path):
    built = build(tmp_path, "yes\nno\n")
    before = built.path.read_bytes()
    with pytest.raises(UserError, match=r"lmplz: .* 8192; give it more memory \(--memory\)"):
        build(tmp_path, "yes\nno\nperhaps\n", memory="1K")
    assert built.path.read_bytes() == before
    assert len(list(built.path.parent.iterdir())) == 2


def test_intermediate_files_lie_where_they_are_told_and_vanish(programs, tmp_path, monkeypatch):
    seen = []
    run = lm_build._run
    monkeypatch.setattr(lm_build, "_run", lambda command: seen.append(command) or run(command))
    build(tmp_path, "yes\nno\n", temporary_folder=str(tmp_path / "scratch"))
    assert str(tmp_path / "scratch") in " ".join(seen[0])
    assert not list((tmp_path / "scratch").iterdir())


def fake_programs(folder, monkeypatch, script):
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(kenlm, "program", lambda name: path)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "echo '=== 1/5 Counting ===' >&2; kill -9 $$",
            "lmplz: signal 9 ended it; give it more memory (--memory), or less text",
        ),
        (
            "echo 'x.cc:2 in void f() threw E because (a < b).' >&2; echo 'No room' >&2; exit 1",
            "lmplz: E because (a < b). No room; give it more memory (--memory), or less text",
        ),
        (
            "exit 1",
            "lmplz: it failed without a word; give it more memory (--memory), or less text",
        ),
    ],
)
def test_what_lmplz_complains_about_is_told(tmp_path, monkeypatch, script, message):
    fake_programs(tmp_path, monkeypatch, script)
    with pytest.raises(UserError) as error:
        build(tmp_path, "yes\n")
    assert str(error.value) == message
    assert not list((tmp_path / "out").iterdir())


def test_missing_programs_are_told_before_text_is_read(tmp_path, monkeypatch):
    def fail(name):
        raise UserError(f"{name}: is missing")

    monkeypatch.setattr(kenlm, "program", fail)
    with pytest.raises(UserError, match="^lmplz: is missing$"):
        lm_build.build(["-"], ENGLISH, tmp_path / "lm.binary")


def test_a_missing_text_is_told_before_programs_are_compiled(tmp_path, monkeypatch):
    monkeypatch.setattr(kenlm, "program", None)
    with pytest.raises(UserError, match="nothing.txt: cannot be read"):
        build(tmp_path, tmp_path / "nothing.txt")
    with pytest.raises(UserError, match="encoding 'klingon': is unknown"):
        build(tmp_path, "yes", encoding="klingon")


def test_words_do_not_suit_text_without_spaces(tmp_path):
    with pytest.raises(UserError) as error:
        build(tmp_path, "中人", Alphabet(tuple("中人 a"), language="zh"), unit="word")
    assert str(error.value) == (
        "unit 'word': no spaces separate the words of this alphabet's text; use character or mixed"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unit": "syllable"}, "unit must be one of word, character, mixed. Received: 'syllable'"),
        ({"order": 1}, "order must lie in [2, 6]. Received: 1"),
        ({"order": 7}, "order must lie in [2, 6]. Received: 7"),
        (
            {"prune": (1, 1)},
            "prune must be numbers that begin with 0 and never fall. Received: '1 1'",
        ),
        (
            {"prune": (0, 2, 1)},
            "prune must be numbers that begin with 0 and never fall. Received: '0 2 1'",
        ),
        ({"prune": ()}, "prune must be numbers that begin with 0 and never fall. Received: ''"),
        (
            {"order": 2, "prune": (0, 0, 1)},
            "prune has more numbers than the order 2. Received: '0 0 1'",
        ),
        ({"vocabulary_limit": -1}, "vocabulary_limit must be >= 0. Received: -1"),
        ({"structure": "hash"}, "type must be one of trie, probing. Received: 'hash'"),
        ({"quantize_bits": 1}, "quantize_bits must be 0 or lie in [2, 25]. Received: 1"),
        ({"quantize_bits": 26}, "quantize_bits must be 0 or lie in [2, 25]. Received: 26"),
        (
            {"quantize_bits": 8, "structure": "probing"},
            "quantize_bits needs type trie. Received: 'probing'",
        ),
        ({"memory": "lots"}, "memory must be a number with %, K, M, G or T. Received: 'lots'"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        BuildOptions(**options)
    assert str(error.value) == message
