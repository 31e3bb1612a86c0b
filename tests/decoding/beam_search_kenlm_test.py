"""The beam search with language models of KenLM's: what the oracle says, in any process."""

import dataclasses
import multiprocessing

import numpy as np
import pytest

from ds2_tf.decoding.beam_search import BeamSearchDecoder
from ds2_tf.decoding.language_model import LanguageModel
from tests.decoding import beam_search_cases, beam_search_oracle
from tests.decoding.beam_search_oracle import Task
from tests.decoding.beam_search_test import check_equal, decode


def load(folder, model, alphabet):
    path = folder / f"{model.unit}.arpa"
    path.write_text(model.arpa(), encoding="utf-8")
    return LanguageModel.load(path, alphabet, unit=model.unit)


def with_kenlm(folder, task):
    decoder = beam_search_cases.make_decoder(task)
    return BeamSearchDecoder(
        task.alphabet,
        decoder.options,
        load(folder, task.model, task.alphabet),
        hot_words=task.hot_words,
    )


@pytest.mark.parametrize(
    ("name", "unit"), [("spaced", "word"), ("mixed", "mixed"), ("mixed", "character")]
)
def test_equals_brute_force(tmp_path, name, unit):
    for seed in range(8):
        generator = np.random.default_rng(seed)
        alphabet = beam_search_cases.ALPHABETS[name]
        task = Task(
            alphabet,
            beam_search_cases.random_model(generator, name, unit),
            unknown_penalty=-2.0,
            closed=bool(seed % 2),
            hot_words=beam_search_cases.random_hot_words(generator, name, unit),
        )
        log_probs = beam_search_cases.random_log_probs(generator, 4, alphabet.num_labels, 1.0)
        expected = beam_search_oracle.brute_force(task, log_probs)
        if len(task.model.vocabulary) > 3:
            check_equal(decode(with_kenlm(tmp_path, task), log_probs), expected, f"seed {seed}")


def test_spawned_processes_open_the_model_again(tmp_path):
    generator = np.random.default_rng(0)
    task = Task(
        beam_search_cases.ALPHABETS["spaced"],
        beam_search_cases.random_model(generator, "spaced", "word"),
        hot_words={"a b": 2.0},
    )
    decoder = with_kenlm(tmp_path, task)
    log_probs = beam_search_cases.random_log_probs(generator, 5, 4)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(decode, (decoder, log_probs)) == decode(decoder, log_probs)


def test_weight_0_equals_no_model(tmp_path):
    generator = np.random.default_rng(1)
    task = Task(
        beam_search_cases.ALPHABETS["spaced"],
        beam_search_cases.random_model(generator, "spaced", "word"),
        lm_weight=0.0,
        word_bonus=0.0,
        hot_words={"ab": 1.0},
    )
    log_probs = beam_search_cases.random_log_probs(generator, 12, 4)
    without = beam_search_cases.make_decoder(dataclasses.replace(task, model=None))
    options = dataclasses.replace(without.options, beam_width=9)
    model = load(tmp_path, task.model, task.alphabet)
    results = [
        decode(BeamSearchDecoder(task.alphabet, options, m, hot_words=task.hot_words), log_probs)
        for m in (model, None)
    ]
    assert results[0] == results[1]
