"""The two oracles of the beam search agree with each other, and with what can be told by hand."""

import math

import numpy as np
import pytest

from ds2_tf.alphabet import Alphabet
from tests.decoding import beam_search_cases, beam_search_oracle
from tests.decoding.beam_search_oracle import Task
from tests.decoding.ngram_model import NgramModel

AB = Alphabet((" ", "a", "b"))


def test_brute_force_equals_prefix_search():
    for seed in range(400):
        task, log_probs = beam_search_cases.random_task(np.random.default_rng(seed))
        expected = beam_search_oracle.brute_force(task, log_probs)
        found = beam_search_oracle.prefix_search(task, log_probs)
        assert {r.text for r in found} == {r.text for r in expected}, seed
        by_text = {result.text: result for result in expected}
        for result in found:
            np.testing.assert_allclose(result[1:], by_text[result.text][1:], atol=1e-9)
            acoustic = beam_search_oracle.ctc_score(task, log_probs, result.text)
            assert acoustic == pytest.approx(result.acoustic, abs=1e-9)


def test_one_frame_by_hand():
    results = beam_search_oracle.brute_force(Task(AB), np.log([[0.2, 0.1, 0.4, 0.3]]))
    assert [result.text for result in results] == ["a", "", "b"]
    # A space alone spells nothing.
    assert [math.exp(r.score) for r in results] == pytest.approx([0.4, 0.3, 0.3])


def test_spaces_by_hand():
    """Of four frames, "a b" is heard as "_a b", "a _b" and so on, each of mass 1/256."""
    results = beam_search_oracle.brute_force(Task(AB), np.full([4, 4], math.log(0.25)))
    masses = {result.text: math.exp(result.acoustic) * 256 for result in results}
    # One frame more than needed: a label twice (3), a blank at any of 4 places,
    # a space before or after (2).
    assert masses["a b"] == pytest.approx(9)
    assert sum(masses.values()) == pytest.approx(256)


def test_language_score_by_hand():
    model = NgramModel("word", ["a"], 2, seed=0)
    model.log10 = {
        ("<unk>",): (-2.0, 0.0),
        ("<s>",): (-99.0, -0.5),
        ("</s>",): (-1.0, 0.0),
        ("a",): (-0.7, -0.25),
        ("<s>", "a"): (-0.3, 0.0),
    }
    task = Task(AB, model, 2.0, 0.5, -5.0, hot_words={"b": 3.0, "a b": 10.0, "bb": 100.0})
    log10 = -0.3 + (-0.25 - 2.0) - 1.0
    expected = 2.0 * log10 * math.log(10) + 2 * 0.5 + 3.0 + 10.0
    assert beam_search_oracle.language_score(task, "a b") == pytest.approx(expected)
    log10 = (-0.5 - 2.0) - 1.0
    expected = 2.0 * (log10 * math.log(10) - 5.0) + 0.5
    assert beam_search_oracle.language_score(task, "ba") == pytest.approx(expected)


def test_phrases_overlap():
    task = Task(AB, hot_words={"a b": 1.0, "b a": 10.0, "a a": 100.0})
    assert beam_search_oracle.language_score(task, "a b a") == 11
    assert beam_search_oracle.language_score(task, "a a a") == 200
    assert beam_search_oracle.language_score(task, "a ba") == 0


def test_closed_vocabulary_drops_unfinished_words():
    task = Task(AB, allowed_words=["ab"])
    log_probs = beam_search_cases.random_log_probs(np.random.default_rng(0), 5, 4, 1.0)
    texts = {result.text for result in beam_search_oracle.brute_force(task, log_probs)}
    assert texts == {"", "ab", "ab ab"}


def test_pruning_only_lowers_scores():
    for seed in range(30):
        task, log_probs = beam_search_cases.random_task(np.random.default_rng(seed))
        whole = {r.text: r.score for r in beam_search_oracle.prefix_search(task, log_probs)}
        pruned = beam_search_oracle.prefix_search(task, log_probs, 6, 0.95, 3, 8.0)
        assert all(r.score <= whole[r.text] + 1e-9 for r in pruned)
        assert len(pruned) <= 6
