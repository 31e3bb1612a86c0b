import itertools
import json
import math
import os
import sys

import numpy as np
import pytest

from ds2_tf.alphabet import Alphabet, english
from ds2_tf.benchmarks import ctc_objective, decoder_client, decoder_contest, posteriors
from ds2_tf.benchmarks.decoder_cells import Cell
from ds2_tf.benchmarks.decoder_client import Decoded
from ds2_tf.benchmarks.decoder_contest import Contender, Result
from ds2_tf.decoding.language_model import LanguageModel
from tests.benchmark_run import program_status

WORDS = ("a", "cat", "dog", "the", "sat", "on", "mat", "hot")
CHARACTERS = "一二三四五"


def arpa(path, tokens):
    lines = ["\\data\\", f"ngram 1={len(tokens) + 3}", "ngram 2=1", "", "\\1-grams:"]
    lines += ["-9\t<unk>\t0", "0\t<s>\t0", "-1\t</s>\t0"]
    lines += [f"-1\t{token}\t0" for token in tokens]
    lines += ["", "\\2-grams:", f"-0.5\t{tokens[0]} {tokens[1]}", "", "\\end\\", ""]
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def result(name, rate, milliseconds, searcher=None):
    """A contender's result for two utterances of ten words, of which `rate` are wrong."""
    wrong = round(20 * rate)
    texts = [" ".join(["x"] * min(10, wrong) + ["a"] * (10 - wrong)), "a " * 9 + "a"]
    settings = {"lm_weight": 1.0, "word_bonus": 0.0, "score_threshold": 9, "cutoff_probability": 1}
    contender = Contender(name, searcher, "")
    return Result(contender, settings, texts, [milliseconds / 1e3] * 2)


@pytest.mark.parametrize("symbols", [(" ", "a", "b"), ("a", "b")])
def test_the_objective_sums_all_alignments(symbols):
    alphabet = Alphabet(symbols)
    log_probs = np.random.default_rng(0).normal(size=(6, alphabet.num_labels))
    log_probs -= np.log(np.exp(log_probs).sum(1, keepdims=True))
    sums = {}
    for path in itertools.product(range(alphabet.num_labels), repeat=6):
        text = "".join(alphabet.symbols[label - 1] for label, _ in itertools.groupby(path) if label)
        text = " ".join(text.split())
        probability = math.exp(sum(log_probs[t, label] for t, label in enumerate(path)))
        sums[text] = sums.get(text, 0.0) + probability
    assert "aab" in sums
    for text, probability in sums.items():
        found = ctc_objective.acoustic_score(log_probs, text, alphabet)
        assert found == pytest.approx(math.log(probability), abs=1e-9)


def test_simulated_posteriors_are_the_same_spikes_peaky_or_flat(tmp_path):
    texts = ["the cat sat on a hot mat"]
    peaky = posteriors.simulate("peaky", texts, english())
    flat = posteriors.simulate("flat", texts, english(), temperature=3.0)
    again = posteriors.simulate("flat", texts, english(), temperature=3.0)
    other = posteriors.simulate("flat", texts, english(), temperature=3.0, seed=1)
    for found in (peaky, flat):
        assert found.log_probs[0].shape == (400, 29)
        np.testing.assert_allclose(np.exp(found.log_probs[0]).sum(1), 1, rtol=1e-5)
    assert np.exp(peaky.log_probs[0]).max(1).mean() > 0.95
    assert np.exp(flat.log_probs[0]).max(1).mean() < 0.55
    np.testing.assert_array_equal(peaky.log_probs[0].argmax(1), flat.log_probs[0].argmax(1))
    np.testing.assert_array_equal(flat.log_probs[0], again.log_probs[0])
    assert not np.array_equal(flat.log_probs[0], other.log_probs[0])
    flat.save(tmp_path / "flat.npz")
    loaded = posteriors.load(tmp_path / "flat.npz", "flat")
    np.testing.assert_array_equal(loaded.log_probs[0], flat.log_probs[0])
    assert (loaded.texts, loaded.alphabet.symbols) == (texts, english().symbols)


def test_texts_too_long_for_the_frames_are_refused():
    with pytest.raises(ValueError, match=r"^num_frames must be >= 48\. Received: 40$"):
        posteriors.simulate("x", ["the cat sat on a hot mat"], english(), num_frames=40)


def test_tuning_finds_the_weights_with_the_fewest_errors():
    best = (pytest.approx(0.8 * 1.3), 2.0)

    class Search:
        def prepare(self, name, system, utterances, settings):
            self.settings = settings

        def run(self, name, first, count):
            pair = (self.settings["lm_weight"], self.settings["word_bonus"])
            errors = abs(pair[0] - 0.99) + abs(pair[1] - 2.0)
            text = " ".join("x" if i < 20 * errors else "a" for i in range(100))
            return Decoded([text] * count, [0.1] * count)

    dev = posteriors.Posteriors("dev", english(), [np.zeros((1, 29))] * 5, ["a " * 100] * 5)
    contender = Contender("x", Search(), "", {"score_threshold": 7})
    settings, found = decoder_contest.tune(contender, dev, 100, 1.0)
    assert (settings["lm_weight"], settings["word_bonus"]) == best
    assert (settings["score_threshold"], settings["beam_width"]) == (7, 100)
    assert found.word_error_rate(dev.texts) <= 0.02
    assert len(found.texts) == 3  # A second allows less, but it's three at least.


def test_peers_meet_the_fastest_of_ours_without_more_errors():
    references = [" ".join(["a"] * 10)] * 2
    ours = [result("ours", rate, ms) for rate, ms in ((0.5, 1), (0.2, 2), (0.1, 4))]
    process = object.__new__(decoder_client.DecoderClient)
    peers = [result(name, rate, ms, process) for name, rate, ms in (("p", 0.3, 9), ("q", 0.05, 20))]
    scores = {
        id(r): [q, q] for r, q in zip(ours + peers, (-4.0, -3.0, -1.0, -2.0, -1.0), strict=True)
    }
    cell = Cell("x", ours, peers, references, scores)
    assert [(r.case, r.metric, r.ours, r.peer_value, r.speedup) for r in cell.rows()] == [
        ("x, at most the errors of p", "CPU ms an utterance", 2, 9, 4.5),
        ("x, at most the errors of p", "word error rate", 0.2, 0.3, None),
        ("x, at most the errors of p", "mean Q", -3, -2, None),
        ("x, at most the errors of p, and no lower mean Q", "CPU ms an utterance", 4, 9, 2.25),
        ("x, MORE errors than q", "CPU ms an utterance", 4, 20, 5),
        ("x, MORE errors than q", "word error rate", 0.1, 0.05, None),
        ("x, MORE errors than q", "mean Q", -1, -1, None),
        ("x, MORE errors than q, and no lower mean Q", "CPU ms an utterance", 4, 20, 5),
    ]
    lines = cell.table().splitlines()
    assert "  4.5 (ours 9 nats, p 1)    2.2 (ours 9 nats, p 1)" in lines[-2]
    assert "   none   none" in lines[-1]


def test_the_process_of_the_peers_answers(tmp_path):
    with decoder_client.start(sys.executable, arpa(tmp_path / "x.arpa", WORDS), WORDS) as client:
        assert isinstance(client.systems, list)
        client.choose([])
        with pytest.raises(decoder_client.UserError, match="^--peers: 'x' isn't installed there"):
            client.choose(["x"])
        with pytest.raises(decoder_client.UserError, match="KeyError: 'x'"):
            client.run("x", 0, 1)


def test_a_run_without_peers(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on a hot mat the dog sat on the hot cat on a mat\n" * 60)
    characters = tmp_path / "characters.txt"
    characters.write_text(CHARACTERS * 30, encoding="utf-8")
    lm = arpa(tmp_path / "words.arpa", WORDS)
    status, error = program_status(
        "bench_decoder",
        f"--lm={lm}",
        f"--text={text}",
        f"--character_lm={arpa(tmp_path / 'characters.arpa', CHARACTERS)}",
        f"--character_text={characters}",
        *("--beam_widths=20", "--utterances=3", "--passes=1", "--num_labels=40"),
        *("--tuning_seconds=0", "--test_seconds=0.1", "--stream_seconds=20"),
        f"--json={tmp_path / 'rows.json'}",
    )
    assert status == 0, error
    rows = json.loads((tmp_path / "rows.json").read_text())
    cases = [(row["case"], row["metric"]) for row in rows]
    assert ("peaky, beam 20, two threads", "wall seconds") in cases
    assert ("flat, beam 20, stream of 20 s", "resident MiB") in cases
    assert ("peaky, 40 labels, beam 200", "real-time factor") in cases
    assert all(row["ours"] >= 0 for row in rows)


def test_the_objective_is_what_the_search_maximises(tmp_path):
    from ds2_tf.benchmarks.decoder_ours import OurSearch

    model = LanguageModel.load(arpa(tmp_path / "words.arpa", WORDS), unit="word")
    test = posteriors.simulate("x", ["the cat sat on a hot mat"], english(), num_frames=100)
    settings = {"lm_weight": 0.7, "word_bonus": 0.4, "closed": True, "cutoff_probability": 1.0}
    decoder = OurSearch(model).decoder(test, {**settings, "score_threshold": 60.0})
    best = decoder.decode(test.log_probs[0][None], [100])[0][0]
    tokens = best.text.split()
    language = 0.7 * model.score(tokens).sum() + 0.4 * len(tokens)
    acoustic = ctc_objective.acoustic_score(test.log_probs[0], best.text, english())
    assert best.score == pytest.approx(acoustic + language, abs=1e-2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "one of --lm and --character_lm is required"),
        (["--lm=x"], "--lm needs --text or --test, and they need --lm"),
        (["--lm=x", "--test=x"], "--dev, --test and --names must be equally long"),
        (["--character_lm=x"], "--character_lm and --character_text need each other"),
    ],
)
def test_usage_errors_are_told_in_a_line(arguments, message):
    assert program_status("bench_decoder", *arguments) == (2, f"error: {message}; see --help\n")


def test_a_python_that_does_not_run_is_told(tmp_path):
    with (
        pytest.raises(decoder_client.UserError, match="^--peer_python: /nowhere/python: No such"),
        decoder_client.start("/nowhere/python", os.devnull, WORDS),
    ):
        pass
