import dataclasses
import json

import numpy as np
import pytest

from ds2_tf import alphabet
from ds2_tf.decoding import calibration, tuning, tuning_plots
from ds2_tf.decoding.beam_search import BeamSearchDecoder, BeamSearchOptions
from ds2_tf.posteriors import Posteriors

ABC = alphabet.Alphabet((" ", "a", "b"))
OPTIONS = BeamSearchOptions(beam_width=8)


def frames(text, rng):
    """Posteriors that say a text, with noise."""
    labels = [0]
    for symbol in text:
        labels += [ABC.encode(f"a{symbol}a")[1] if symbol == " " else ABC.encode(symbol)[0], 0]
    logits = rng.normal(size=(len(labels), ABC.num_labels)) + 3 * np.eye(ABC.num_labels)[labels]
    return (logits - np.log(np.exp(logits).sum(-1, keepdims=True))).astype(np.float32)


@pytest.fixture
def posteriors():
    rng = np.random.default_rng(1)
    texts = ["a b", "ab ba", "b"]
    return Posteriors([frames(text, rng) for text in texts], texts, "digest")


@pytest.fixture
def decoded(monkeypatch):
    """Counts the decoders that are made."""
    count = []

    class Counted(BeamSearchDecoder):
        def __init__(self, *arguments, **keywords):
            count.append(1)
            super().__init__(*arguments, **keywords)

    monkeypatch.setattr(tuning, "BeamSearchDecoder", Counted)
    return count


def test_a_grid_tries_all_pairs_once(posteriors, tmp_path, decoded):
    tuner = tuning.Tuner(ABC, posteriors, None, tmp_path / "trials.jsonl")
    trials = tuner.grid(OPTIONS, (0.0, 1.0), (0.0, 1.0, 2.0), progress=False)
    assert [(t.options.lm_weight, t.options.word_bonus) for t in trials] == [
        *[(0.0, 0.0), (0.0, 1.0), (0.0, 2.0), (1.0, 0.0), (1.0, 1.0), (1.0, 2.0)]
    ]
    assert len(decoded) == 6
    # Without a language model the weights mean nothing.
    assert len({t.word_error_rate for t in trials}) == 1
    assert tuner.grid(OPTIONS, (0.0, 1.0), (0.0, 1.0, 2.0), progress=False) == trials
    assert len(decoded) == 6


def test_a_stopped_tuning_goes_on(posteriors, tmp_path, decoded):
    log = tmp_path / "trials.jsonl"
    first = tuning.Tuner(ABC, posteriors, None, log).grid(OPTIONS, (0.0,), (0.0, 1.0), False)
    with open(log, "a") as file:
        file.write('{"key": "digest ", "opti')  # killed while it wrote
    again = tuning.Tuner(ABC, posteriors, None, log).grid(OPTIONS, (0.0,), (0.0, 1.0), False)
    assert again == first
    assert len(decoded) == 2


def test_trials_of_other_posteriors_do_not_count(posteriors, tmp_path, decoded):
    log = tmp_path / "trials.jsonl"
    tuning.Tuner(ABC, posteriors, None, log).try_options(OPTIONS)
    other = Posteriors(posteriors.log_probs[:1], posteriors.references[:1], "other")
    tuning.Tuner(ABC, other, None, log).try_options(OPTIONS)
    assert len(decoded) == 2
    assert len({json.loads(line)["key"] for line in log.read_text().splitlines()}) == 2


def test_refinement_descends(posteriors, tmp_path, monkeypatch):
    tuner = tuning.Tuner(ABC, posteriors, None, tmp_path / "trials.jsonl")

    def bowl(options):
        rate = (options.lm_weight - 0.7) ** 2 + (options.word_bonus - 1.3) ** 2
        return tuning.Trial(options, rate, rate, 1.0)

    monkeypatch.setattr(tuner, "try_options", bowl)
    best = tuner.best(tuner.refine(OPTIONS, progress=False))
    assert best.options.lm_weight == pytest.approx(0.7, abs=0.1)
    assert best.options.word_bonus == pytest.approx(1.3, abs=0.1)


def test_the_frontier_is_a_table_and_pictures(posteriors, tmp_path):
    tuner = tuning.Tuner(ABC, posteriors, None, tmp_path / "trials.jsonl")
    trials = tuner.frontier(OPTIONS, (1, 8), (5.0, 10.0), progress=False)
    assert all(trial.milliseconds > 0 for trial in trials)
    lines = tuning.table(trials, spaced=True).splitlines()
    assert lines[0] == "| beam width | score threshold | word error rate | ms an utterance |"
    assert [line.split("|")[1:3] for line in lines[2:]] == [
        *[[" 1 ", " 5 "], [" 8 ", " 5 "], [" 1 ", " 10 "], [" 8 ", " 10 "]]
    ]
    grid = tuner.grid(OPTIONS, (0.0, 1.0), (0.0, 1.0), progress=False)
    tuning_plots.heat_map(grid, True, tmp_path / "heat.png")
    tuning_plots.frontier(trials, True, tmp_path / "frontier.png")
    result = calibration.reliability([0.2, 0.9], [False, True])
    tuning_plots.reliability({"dev": result}, tmp_path / "reliability.png")
    for name in ("heat", "frontier", "reliability"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_without_words_characters_count(tmp_path):
    mandarin = alphabet.Alphabet(("你", "好"), language="zh")
    log_probs = np.log(np.array([[0.1, 0.8, 0.1], [0.8, 0.1, 0.1], [0.1, 0.1, 0.8]], np.float32))
    tuner = tuning.Tuner(
        mandarin, Posteriors([log_probs], ["你你"], "d"), None, tmp_path / "trials.jsonl"
    )
    assert tuner.try_options(OPTIONS).loss(tuner.spaced) == 0.5


def test_of_equal_trials_the_middle_and_the_narrow_beam_are_taken(posteriors, tmp_path):
    tuner = tuning.Tuner(ABC, posteriors, None, tmp_path / "trials.jsonl")

    def trial(rate, milliseconds=1.0, **options):
        return tuning.Trial(dataclasses.replace(OPTIONS, **options), rate, rate, milliseconds)

    weights = [(a, b, 0.2 if a == 0 else 0.1) for a in (0.0, 0.5, 1.0, 1.5) for b in (-1, 0, 1)]
    best = tuner.best([trial(rate, lm_weight=a, word_bonus=b) for a, b, rate in weights])
    assert (best.options.lm_weight, best.options.word_bonus) == (1.0, 0)
    beams = [
        trial(0.1, 1.0, beam_width=512, score_threshold=5.0),
        trial(0.1, 3.0, beam_width=64, score_threshold=10.0),
        trial(0.1, 4.0, beam_width=64, score_threshold=20.0),
        trial(0.1, 0.5, beam_width=8, score_threshold=20.0),
        trial(0.2, 0.1, beam_width=32, score_threshold=20.0),
    ]
    assert tuner.cheapest(beams) == beams[2]
