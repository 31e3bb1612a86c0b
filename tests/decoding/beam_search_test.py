"""The beam search finds what its definition says, and answers wrong input."""

import concurrent.futures
import dataclasses
import math
import multiprocessing
import pickle

import numpy as np
import pytest

from ds2_tf import alphabet as alphabets
from ds2_tf.alphabet import Alphabet
from ds2_tf.decoding.beam_search import BeamSearchDecoder, BeamSearchOptions
from ds2_tf.errors import UserError
from tests.decoding import beam_search_cases, beam_search_oracle
from tests.decoding.beam_search_cases import make_decoder
from tests.decoding.beam_search_oracle import Task
from tests.decoding.ngram_model import NgramModel

ENGLISH = alphabets.english()


def decode(decoder, log_probs, **arguments):
    """Returns the hypotheses of one utterance [T, V]."""
    return decoder.decode(log_probs[None], np.array([len(log_probs)]), **arguments)[0]


def check_equal(found, expected, message=""):
    """Compares hypotheses with the oracle's results, but for the order of equal ones."""
    by_text = {result.text: result for result in expected}
    assert sorted(h.text for h in found) == sorted(by_text), message
    for hypothesis in found:
        result = by_text[hypothesis.text]
        assert hypothesis.score == pytest.approx(result.score, abs=1e-4), (message, result)
        assert hypothesis.acoustic_score == pytest.approx(result.acoustic, abs=1e-4), message
        assert hypothesis.language_score == pytest.approx(result.language, abs=1e-4), message
    scores = [hypothesis.score for hypothesis in found]
    assert scores == sorted(scores, reverse=True), message


@pytest.mark.parametrize("name", list(beam_search_cases.ALPHABETS))
def test_equals_brute_force(name):
    num_compared = 0
    for seed in range(1_000, 1_500):
        task, log_probs = beam_search_cases.random_task(np.random.default_rng(seed))
        if task.alphabet is not beam_search_cases.ALPHABETS[name]:
            continue
        expected = beam_search_oracle.brute_force(task, log_probs)
        if expected:
            found = decode(make_decoder(task), log_probs)
            check_equal(found, expected, f"seed {seed}, {task}")
            num_compared += 1
    assert num_compared > 60


def test_equals_prefix_search_on_longer_utterances():
    for seed in range(20):
        generator = np.random.default_rng(seed)
        model = beam_search_cases.random_model(generator, "spaced", "word")
        hot_words = beam_search_cases.random_hot_words(generator, "spaced", "word")
        task = Task(beam_search_cases.ALPHABETS["spaced"], model, hot_words=hot_words)
        log_probs = beam_search_cases.random_log_probs(generator, 7, 4)
        expected = beam_search_oracle.prefix_search(task, log_probs)
        check_equal(decode(make_decoder(task), log_probs), expected, f"seed {seed}")


@pytest.mark.parametrize("unit", ["word", "character", "mixed"])
def test_scores_of_a_narrow_beam(unit):
    """What a narrow beam finds has the exact language score, and nearly all the mass there is."""
    tokens = {"character": [*"\u2581abcd"]}.get(unit, ["ab", "cd", "a", "bad", "dad"])
    for seed in range(6):
        generator = np.random.default_rng(seed)
        alphabet = Alphabet((" ", *"abcd"))
        model = NgramModel(unit, tokens, 3, seed)
        hot_words = {} if unit == "character" else {"dad bad": 5.0, "cab": 3.0, "a": 1.0}
        task = Task(alphabet, model, hot_words=hot_words)
        log_probs, _ = beam_search_cases.spoken(generator, alphabet, "dad bad cab a", noise=2.0)
        decoder = make_decoder(task, beam_width=30, cutoff_probability=0.999, cutoff_symbols=5,
                       score_threshold=15.0, num_hypotheses=10)  # fmt: skip
        hypotheses = decode(decoder, log_probs)
        assert len(hypotheses) == 10
        for hypothesis in hypotheses:
            language = beam_search_oracle.language_score(task, hypothesis.text)
            assert hypothesis.language_score == pytest.approx(language, abs=1e-3)
            acoustic = beam_search_oracle.ctc_score(task, log_probs, hypothesis.text)
            assert hypothesis.acoustic_score <= acoustic + 1e-3
        best = beam_search_oracle.ctc_score(task, log_probs, hypotheses[0].text)
        assert hypotheses[0].acoustic_score >= best - 0.5


def test_equal_language_models_whatever_their_weight_0():
    """Faults of old: an lm_weight of 0 that still changes the output."""
    alphabet = beam_search_cases.ALPHABETS["spaced"]
    for seed in range(30):
        generator = np.random.default_rng(seed)
        unit = str(generator.choice(["word", "character", "mixed"]))
        model = beam_search_cases.random_model(generator, "spaced", unit)
        log_probs = beam_search_cases.random_log_probs(generator, 12, 4)
        options = {"beam_width": 8, "cutoff_probability": 0.97, "score_threshold": 12.0}
        without = Task(alphabet, None, hot_words={"ab": 1.5})
        weightless = dataclasses.replace(without, model=model, lm_weight=0.0, word_bonus=0.0)
        assert decode(make_decoder(weightless, **options), log_probs) == decode(
            make_decoder(without, **options), log_probs
        )


def test_no_boost_splits_a_neighbour():
    words = ["catalog", "cat", "a", "log", "dog", "the", "see"]
    model = NgramModel("word", words, 3, 0)
    damaged = {0.0: 0, 0.2: 0}
    for seed in range(12):
        text = ["the catalog", "the catalog see"][seed % 2]
        log_probs, _ = beam_search_cases.spoken(np.random.default_rng(seed), ENGLISH, text)
        task = Task(ENGLISH, model, hot_words={"cat": 10.0})
        for share in damaged:
            decoder = make_decoder(
                task, beam_width=500, score_threshold=30.0, hot_space_share=share
            )
            damaged[share] += decode(decoder, log_probs)[0].text != text
    assert damaged[0.2] == 0
    assert damaged[0.0] > 6


def test_hot_word_is_found_where_it_is_said():
    """A new name, which the closed vocabulary lacks and the network writes wrongly."""
    model = NgramModel("word", ["new", "york", "times", "the", "a", "mark"], 2, 0)
    log_probs, _ = beam_search_cases.spoken(np.random.default_rng(2), ENGLISH, "the yerik")
    symbol = ENGLISH.encode("o")[0]
    log_probs[:, symbol] = np.maximum(log_probs[:, symbol], -4.0)
    options = {"beam_width": 500, "score_threshold": 30.0, "cutoff_probability": 0.999}
    closed = Task(ENGLISH, model, closed=True)
    assert decode(make_decoder(closed, **options), log_probs)[0].text != "the yorik"
    hot = dataclasses.replace(closed, hot_words={"yorik": 8.0})
    assert decode(make_decoder(hot, **options), log_probs)[0].text == "the yorik"
    request = decode(make_decoder(closed, **options), log_probs, hot_words={"Yorik": 8.0})
    assert request == decode(make_decoder(hot, **options), log_probs)


def test_a_request_leaves_no_hot_words_behind():
    decoder = make_decoder(Task(beam_search_cases.ALPHABETS["spaced"], hot_words={"a": 2.0}))
    log_probs = beam_search_cases.random_log_probs(np.random.default_rng(3), 5, 4)
    before = decode(decoder, log_probs)
    assert decode(decoder, log_probs, hot_words={"b": 9.0}) != before
    assert decode(decoder, log_probs) == before


def test_unfinished_word_is_dropped_if_nothing_is_complete():
    """Neither the blank nor a space is possible, so the word that is begun has to go."""
    alphabet = beam_search_cases.ALPHABETS["spaced"]
    log_probs = np.log(np.full([3, 4], 1e-30, np.float32))
    log_probs[0, 2] = log_probs[1, 1] = log_probs[2, 3] = 0.0
    log_probs[:, 0] = -np.inf
    task = Task(alphabet, allowed_words=["a", "bbb"])
    hypotheses = decode(make_decoder(task, score_threshold=20.0), log_probs)
    assert [hypothesis.text for hypothesis in hypotheses] == ["a"]


@pytest.mark.parametrize("unit", [None, "word", "character"])
def test_padding_and_neighbours_change_nothing(unit):
    generator = np.random.default_rng(4)
    model = beam_search_cases.random_model(generator, "spaced", unit) if unit else None
    task = Task(beam_search_cases.ALPHABETS["spaced"], model, hot_words={"a b": 2.0})
    decoder = make_decoder(task, beam_width=20, score_threshold=20.0, num_hypotheses=5)
    lengths = np.array([7, 0, 12, 1, 5])
    rows = [beam_search_cases.random_log_probs(generator, n, 4) for n in lengths]
    alone = [decode(decoder, row) for row in rows]
    for num_frames in (12, 17):
        batch = np.full([5, num_frames, 4], np.nan, np.float32)
        for row, log_probs in enumerate(rows):
            batch[row, : len(log_probs)] = log_probs
        for num_threads in (1, 3):
            assert decoder.decode(batch, lengths, num_threads=num_threads) == alone


def test_no_frames():
    task = Task(beam_search_cases.ALPHABETS["spaced"])
    for decoder in (
        make_decoder(task),
        make_decoder(dataclasses.replace(task, allowed_words=["a"])),
    ):
        (hypothesis,) = decode(decoder, np.zeros([0, 4], np.float32))
        assert (hypothesis.text, hypothesis.symbols, hypothesis.score) == ("", (), 0.0)
        assert decoder.decode(np.zeros([0, 9, 4], np.float32), np.zeros([0], np.int32)) == []


def test_alphabet_of_one_symbol():
    task = Task(Alphabet(("a",)))
    log_probs = beam_search_cases.random_log_probs(np.random.default_rng(5), 6, 2)
    check_equal(
        decode(make_decoder(task), log_probs), beam_search_oracle.brute_force(task, log_probs)
    )
    task = Task(Alphabet((" ",)))
    (hypothesis,) = decode(make_decoder(task), log_probs)
    assert hypothesis.text == ""


def test_large_alphabet():
    """Mandarin's thousands of characters: found, and quickly enough for the default suite."""
    symbols = tuple(chr(0x4E00 + number) for number in range(5_999))
    alphabet = Alphabet(symbols, language="zh")
    text = "".join(symbols[number] for number in (17, 4_000, 5_998, 17))
    log_probs, _ = beam_search_cases.spoken(np.random.default_rng(6), alphabet, text, noise=0.3)
    decoder = BeamSearchDecoder(alphabet, BeamSearchOptions(beam_width=100))
    assert decode(decoder, log_probs)[0].text == text


def test_impossible_symbols_are_legal():
    log_probs = np.full([4, 4], -np.inf, np.float32)
    log_probs[[0, 1, 2, 3], [2, 0, 1, 3]] = 0.0
    task = Task(beam_search_cases.ALPHABETS["spaced"])
    (hypothesis,) = decode(make_decoder(task), log_probs)
    assert (hypothesis.text, hypothesis.score) == ("a b", 0.0)


def test_decoders_are_deterministic():
    task, _ = beam_search_cases.random_task(np.random.default_rng(8))
    log_probs = np.zeros([8, task.alphabet.num_labels], np.float32)  # Everything is a tie.
    first = decode(make_decoder(task, beam_width=7), log_probs)
    for _ in range(3):
        assert decode(make_decoder(task, beam_width=7), log_probs) == first


def test_confidences_and_symbols():
    for seed in range(10):
        generator = np.random.default_rng(seed)
        text = "a man and the sea"
        log_probs, _ = beam_search_cases.spoken(generator, ENGLISH, text, noise=2.5)
        decoder = BeamSearchDecoder(ENGLISH, BeamSearchOptions(beam_width=50))
        for hypothesis in decode(decoder, log_probs):
            assert "".join(symbol.text for symbol in hypothesis.symbols) == hypothesis.text
            assert hypothesis.score == pytest.approx(
                hypothesis.acoustic_score + hypothesis.language_score, abs=1e-5
            )
            words = [set()]
            for symbol in hypothesis.symbols:
                assert 0 <= symbol.confidence <= 1
                if symbol.text == " ":
                    words.append(set())
                else:
                    words[-1].add(symbol.confidence)
            assert all(len(confidences) == 1 for confidences in words)


def test_confidence_tells_right_from_wrong():
    """Words that noise has spoilt get lower ones on the average."""
    clear, spoilt = [], []
    for seed in range(20):
        generator = np.random.default_rng(seed)
        for noise, confidences in ((0.5, clear), (3.5, spoilt)):
            log_probs, _ = beam_search_cases.spoken(generator, ENGLISH, "the sea", noise=noise)
            decoder = BeamSearchDecoder(ENGLISH, BeamSearchOptions(beam_width=50))
            best = decode(decoder, log_probs)[0]
            confidences += [symbol.confidence for symbol in best.symbols]
    assert np.mean(clear) > np.mean(spoilt) + 0.1


def test_threads_share_a_decoder():
    generator = np.random.default_rng(9)
    model = beam_search_cases.random_model(generator, "spaced", "word")
    decoder = make_decoder(
        Task(beam_search_cases.ALPHABETS["spaced"], model), beam_width=30, num_hypotheses=5
    )
    rows = [beam_search_cases.random_log_probs(generator, 15, 4) for _ in range(16)]
    alone = [decode(decoder, row) for row in rows]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda row: decode(decoder, row), rows)) == alone


def test_spawned_processes_use_a_decoder():
    """Faults of old: decoder objects that fail in pools."""
    task = Task(beam_search_cases.ALPHABETS["spaced"], hot_words={"a b": 2.0}, allowed_words=["a"])
    decoder = make_decoder(task)
    log_probs = beam_search_cases.random_log_probs(np.random.default_rng(10), 5, 4)
    assert decode(pickle.loads(pickle.dumps(decoder)), log_probs) == decode(decoder, log_probs)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(decode, (decoder, log_probs)) == decode(decoder, log_probs)


@pytest.mark.parametrize(
    ("shape", "lengths", "message"),
    [
        ([1, 5, 3], [5], "3"),
        ([5, 4], [5], r"\[5, 4\]|\(5, 4\)"),
        ([2, 5, 4], [5], "length"),
        ([1, 5, 4], [6], "6"),
        ([1, 5, 4], [-1], "-1"),
    ],
)
def test_wrong_shapes(shape, lengths, message):
    decoder = make_decoder(Task(beam_search_cases.ALPHABETS["spaced"]))
    with pytest.raises(ValueError, match=message):
        decoder.decode(np.zeros(shape, np.float32), np.array(lengths))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_log_probability(value):
    decoder = make_decoder(Task(beam_search_cases.ALPHABETS["spaced"]))
    log_probs = np.full([2, 5, 4], np.log(0.25), np.float32)
    log_probs[1, 3, 2] = value
    with pytest.raises(ValueError, match="3"):
        decoder.decode(log_probs, np.array([5, 5]))
    assert len(decoder.decode(log_probs, np.array([5, 3]))) == 2
    with pytest.raises(ValueError, match="3"):
        decoder.stream().step(log_probs[1])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("beam_width", 0),
        ("cutoff_probability", 0.0),
        ("cutoff_probability", 1.5),
        ("cutoff_symbols", 0),
        ("score_threshold", -1.0),
        ("score_threshold", math.nan),
        ("lm_weight", math.nan),
        ("lm_weight", -0.5),
        ("word_bonus", math.inf),
        ("unknown_penalty", math.nan),
        ("num_hypotheses", 0),
    ],
)
def test_wrong_options(name, value):
    with pytest.raises(ValueError, match=f"{name} .*Received: {value}"):
        BeamSearchOptions(**{name: value})


@pytest.mark.parametrize("hot_words", [{"": 1.0}, {"a": math.nan}, {"a": math.inf}, {"ä": 1.0}])
def test_wrong_hot_words(hot_words):
    alphabet = beam_search_cases.ALPHABETS["spaced"]
    with pytest.raises((ValueError, UserError)):
        BeamSearchDecoder(alphabet, hot_words=hot_words)
    decoder = BeamSearchDecoder(alphabet)
    with pytest.raises((ValueError, UserError)):
        decode(decoder, np.zeros([2, 4], np.float32), hot_words=hot_words)
    with pytest.raises((ValueError, UserError)):
        decoder.stream(hot_words=hot_words)


def test_closed_needs_a_vocabulary():
    with pytest.raises(ValueError, match="closed needs a language model or allowed_words"):
        BeamSearchDecoder(ENGLISH, BeamSearchOptions(closed=True))
    with pytest.raises(ValueError, match="closed needs allowed_words with a language model of ch"):
        make_decoder(Task(ENGLISH, NgramModel("character", ["a"], 2, 0), closed=True))
