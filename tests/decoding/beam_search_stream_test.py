"""Streams of the beam search: any pieces, times, long ones."""

import dataclasses
import itertools
import resource
import time

import numpy as np
import pytest

from ds2_tf import alphabet as alphabets
from ds2_tf.decoding.beam_search import BeamSearchDecoder, BeamSearchOptions
from tests.decoding import beam_search_cases
from tests.decoding.beam_search_test import decode
from tests.decoding.ngram_model import LentModel, NgramModel

ENGLISH = alphabets.english()
WORDS = ["a", "man", "saw", "the", "sea", "and", "then", "he", "went", "to", "see", "him"]
SECONDS = 0.02


def make_decoder(unit=None, beam_width=40, **arguments):
    tokens = [*"\u2581abcdefghijklmnopqrstuvwxyz"] if unit == "character" else WORDS
    model = LentModel(NgramModel(unit, sorted(set(tokens)), 2, 0)) if unit else None
    options = BeamSearchOptions(beam_width=beam_width, score_threshold=15.0, num_hypotheses=5)
    return BeamSearchDecoder(ENGLISH, options, model, seconds_per_frame=SECONDS, **arguments)


def random_text(generator, num_words):
    return " ".join(generator.choice(WORDS, num_words))


def pieces(generator, log_probs, largest):
    start = 0
    while start < len(log_probs):
        end = start + int(generator.integers(0, largest + 1))
        yield log_probs[start:end]
        start = end


@pytest.mark.parametrize("unit", [None, "word", "character"])
def test_any_pieces_equal_the_whole(unit):
    generator = np.random.default_rng(0)
    decoder = make_decoder(unit, hot_words={"the sea": 2.0, "him": 1.0})
    for largest in (1, 40, 1_000):
        text = random_text(generator, 18)
        log_probs, _ = beam_search_cases.spoken(generator, ENGLISH, text, {20: 60}, noise=2.0)
        stream = decoder.stream()
        for piece in pieces(generator, log_probs, largest):
            stream.step(piece)
        assert stream.num_frames == len(log_probs)
        assert stream.finish() == decode(decoder, log_probs)


def test_partial_results_change_nothing():
    generator = np.random.default_rng(1)
    decoder = make_decoder("word", hot_words={"the sea": 2.0})
    log_probs, frames = beam_search_cases.spoken(
        generator, ENGLISH, "he saw the sea and him", noise=0.5
    )
    stream = decoder.stream()
    assert stream.partial().text == ""
    seen = []
    for frame in log_probs:
        stream.step(frame[None])
        partial = stream.partial()
        assert stream.partial() == partial
        seen.append(partial.text)
    assert stream.finish() == decode(decoder, log_probs)
    # The last word is there before the stream ends.
    assert seen[-1].split()[-1] == "him"
    assert seen[frames[6] + 1].startswith("he saw")


def test_partial_result_of_a_word_that_is_begun():
    decoder = make_decoder(allowed_words=["saw", "sea"])
    log_probs, frames = beam_search_cases.spoken(
        np.random.default_rng(2), ENGLISH, "saw sea", noise=0.1
    )
    stream = decoder.stream()
    stream.step(log_probs[: frames[5] + 2])
    assert stream.partial().text in ("saw", "saw s", "saw se")
    stream.step(log_probs[frames[5] + 2 :])
    assert stream.finish()[0].text == "saw sea"


def test_streams_do_not_mix():
    generator = np.random.default_rng(3)
    decoder = make_decoder("word")
    texts = [random_text(generator, 8) for _ in range(3)]
    rows = [beam_search_cases.spoken(generator, ENGLISH, text)[0] for text in texts]
    streams = [decoder.stream(), decoder.stream({"zoo": 5.0}), decoder.stream()]
    for start in range(0, max(map(len, rows)), 7):
        for stream, row in zip(streams, rows, strict=True):
            stream.step(row[start : start + 7])
    expected = [
        decode(decoder, rows[0]),
        decode(decoder, rows[1], hot_words={"zoo": 5.0}),
        decode(decoder, rows[2]),
    ]
    assert [stream.finish() for stream in streams] == expected


def shifted(hypothesis, seconds):
    symbols = tuple(
        symbol._replace(
            start_seconds=pytest.approx(symbol.start_seconds + seconds),
            end_seconds=pytest.approx(symbol.end_seconds + seconds),
        )
        for symbol in hypothesis.symbols
    )
    return dataclasses.replace(hypothesis, symbols=symbols)


def test_reset_begins_a_sentence_and_times_go_on():
    generator = np.random.default_rng(4)
    decoder = make_decoder("word", hot_words={"the sea": 2.0})
    first, _ = beam_search_cases.spoken(generator, ENGLISH, "he saw the sea")
    second, _ = beam_search_cases.spoken(generator, ENGLISH, "sea and him")
    stream = decoder.stream()
    stream.step(first)
    assert stream.finish() == decode(decoder, first)
    stream.reset()
    assert stream.partial().text == ""
    stream.step(second)
    assert stream.num_frames == len(first) + len(second)
    expected = [shifted(h, len(first) * SECONDS) for h in decode(decoder, second)]
    assert stream.finish() == expected


def test_streams_reject_wrong_frames():
    decoder = make_decoder()
    stream = decoder.stream()
    stream.step(np.zeros([0, 29], np.float32))
    for shape in ([3, 28], [29], [1, 3, 29]):
        with pytest.raises(ValueError, match=r"29"):
            stream.step(np.zeros(shape, np.float32))
    assert stream.num_frames == 0
    # What was rejected has left nothing behind.
    log_probs, _ = beam_search_cases.spoken(np.random.default_rng(5), ENGLISH, "the sea")
    stream.step(log_probs)
    assert stream.finish() == decode(decoder, log_probs)


def word_starts(hypothesis):
    words, starts = hypothesis.text.split(), []
    after_space = True
    for symbol in hypothesis.symbols:
        if after_space and symbol.text != " ":
            starts.append(symbol.start_seconds)
        after_space = symbol.text == " "
    assert len(starts) == len(words)
    return starts


def test_times_are_those_of_the_symbols():
    for seed in range(5):
        generator = np.random.default_rng(seed)
        text = random_text(generator, 10)
        log_probs, frames = beam_search_cases.spoken(
            generator, ENGLISH, text, {0: 70, 12: 40}, noise=0.5
        )
        best = decode(make_decoder(), log_probs)[0]
        assert best.text == text
        starts = [symbol.start_seconds for symbol in best.symbols]
        assert starts[0] > 1.4
        np.testing.assert_allclose(starts, np.array(frames) * SECONDS, atol=SECONDS + 1e-9)


def test_times_are_in_order_and_inside():
    for seed in range(5):
        generator = np.random.default_rng(seed)
        text = random_text(generator, 10)
        log_probs, _ = beam_search_cases.spoken(generator, ENGLISH, text, noise=3.0)
        for hypothesis in decode(make_decoder("word"), log_probs):
            times = [time for symbol in hypothesis.symbols for time in symbol[1:3]]
            assert all(a <= b + 1e-9 for a, b in itertools.pairwise(times))
            assert times[0] >= 0
            assert times[-1] <= len(log_probs) * SECONDS + 1e-9
            assert all(s.start_seconds < s.end_seconds for s in hypothesis.symbols)


def test_times_do_not_depend_on_the_beam():
    differences = []
    for seed in range(20):
        generator = np.random.default_rng(seed)
        log_probs, _ = beam_search_cases.spoken(
            generator, ENGLISH, random_text(generator, 10), {15: 50}, noise=1.4
        )
        wide, *others = [
            decode(make_decoder("word", beam_width), log_probs)[0] for beam_width in (500, 100, 20)
        ]
        for other in others:
            if other.text == wide.text:
                differences += list(np.subtract(word_starts(other), word_starts(wide)))
    assert len(differences) > 200
    assert np.mean(np.abs(differences) <= SECONDS + 1e-9) >= 0.95


def test_streams_without_an_end_of_a_word_are_bounded():
    """Minutes of noise, of silence, and of one endless word, on which nothing can be agreed."""
    generator = np.random.default_rng(7)
    noise = beam_search_cases.random_log_probs(generator, 7_000, 29, 1.0)
    silence = np.tile(np.log(np.array([[0.999] + [0.001 / 28] * 28], np.float32)), [7_000, 1])
    word = np.concatenate(
        [beam_search_cases.spoken(generator, ENGLISH, "abcdefgh" * 10)[0] for _ in range(25)]
    )
    word[:, 1] = -30.0
    for log_probs in (noise, silence, word):
        stream = make_decoder(beam_width=20).stream()
        for start in range(0, len(log_probs), 100):
            stream.step(log_probs[start : start + 100])
            assert stream.num_held_frames <= 3_072
            assert stream.num_prefixes <= 20 * 3_072
        best = stream.finish()[0]
        end = len(log_probs) * SECONDS + 1e-9
        assert all(0 <= s.start_seconds < s.end_seconds <= end for s in best.symbols)
        assert (best.text == "") == (log_probs is silence)


def test_long_streams_stay_fast_and_small():
    """20,000 frames without a reset, more than six minutes: no step gets slower, nothing grows."""
    generator = np.random.default_rng(6)
    decoder = make_decoder("word", 20, hot_words={"the sea": 1.0})
    stream = decoder.stream()
    texts, seconds, peaks = [], [], []
    while stream.num_frames < 20_000:
        text = random_text(generator, 12)
        log_probs, _ = beam_search_cases.spoken(generator, ENGLISH, text + " a", {0: 40})
        # Ends in a word that the next sentence's pause parts from what follows.
        log_probs = np.concatenate([log_probs, log_probs[-3:]])
        texts.append(text + " a")
        start = time.process_time()
        for first in range(0, len(log_probs), 10):
            stream.step(log_probs[first : first + 10])
        seconds.append((time.process_time() - start) / len(log_probs))
        space = np.full([1, 29], -20.0, np.float32)
        space[0, 1] = 0.0
        stream.step(space)
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    tenth = len(seconds) // 10
    assert np.median(seconds[-tenth:]) < 1.5 * np.median(seconds[tenth : 2 * tenth])
    assert peaks[-1] - peaks[len(peaks) // 2] < 4_000  # KiB
    assert stream.finish()[0].text == " ".join(texts)
