"""What our beam search costs by itself: thousands of characters, two threads, an hour's stream."""

import math
from collections.abc import Mapping
from typing import Any

from ds2_tf import metrics
from ds2_tf.benchmarks import decoder_ours, posteriors
from ds2_tf.benchmarks.decoder_ours import OurSearch
from ds2_tf.benchmarks.decoder_sets import DecoderSets
from ds2_tf.benchmarks.measurement import Row
from ds2_tf.benchmarks.posteriors import Posteriors
from ds2_tf.decoding.language_model import LanguageModel

_CHARACTERS_A_PHRASE = 35  # What is said in 8 s of Mandarin.
_PAPER = {"beam_width": 200, "cutoff_probability": 0.99, "cutoff_symbols": 40}
_UNPRUNED: Mapping[str, Mapping[str, Any]] = {
    "no symbol cut off": {},
    "the beam's width alone prunes": {"score_threshold": 600.0},
}


def threads(sets: DecoderSets, beam_width: int, passes: int) -> list[Row]:
    """Returns two threads beside two processes, for each kind of posteriors."""
    rows = []
    for _, test in sets.pairs:
        decoder = OurSearch(sets.model).decoder(test, {"beam_width": beam_width, "closed": True})
        of_threads, of_processes = decoder_ours.two_threads_seconds(decoder, test, 2 * passes + 1)
        rows.append(
            Row(
                f"{test.name}, beam {beam_width}, two threads",
                "wall seconds",
                of_threads,
                "two processes",
                of_processes,
                of_processes / of_threads,
            )
        )
    return rows


def stream(sets: DecoderSets, beam_width: int, seconds: float) -> list[Row]:
    """Returns the memory and time of a long stream's end beside those of its second tenth."""
    rows = []
    for _, test in sets.pairs[:2]:
        decoder = OurSearch(sets.model).decoder(test, {"beam_width": beam_width, "closed": True})
        num_frames = round(seconds / test.seconds_per_frame)
        costs = decoder_ours.stream_costs(decoder, test.log_probs, num_frames)
        case = f"{test.name}, beam {beam_width}, stream of {seconds:g} s"
        early = "its second tenth"
        (first_bytes, first_seconds), (last_bytes, last_seconds) = costs[1], costs[-1]
        factor = first_seconds / last_seconds
        rows += [
            Row(case, "resident MiB", last_bytes / 2**20, early, first_bytes / 2**20),
            Row(case, "CPU seconds of a tenth", last_seconds, early, first_seconds, factor),
        ]
    return rows


def characters(
    lm: str, text: str, num_labels: int, num_utterances: int, seconds: float
) -> list[Row]:
    """Returns real-time factors and error rates of the character mode, pruned and unpruned.

    Args:
      lm: KenLM file of characters.
      text: without spaces in its lines.
      num_labels: V.
      num_utterances: how many to simulate.
      seconds: CPU time for the unpruned ones, of which at least one is decoded.
    """
    model = LanguageModel.load(lm)
    joined = "".join(c for c in text if model.index(c))
    starts = range(0, len(joined) - _CHARACTERS_A_PHRASE + 1, _CHARACTERS_A_PHRASE)
    stride = max(1, len(starts) // num_utterances)
    texts = [joined[i : i + _CHARACTERS_A_PHRASE] for i in starts[::stride][:num_utterances]]
    known = [token for token in model.vocabulary if model.index(token) and len(token) == 1]
    alphabet = posteriors.with_fillers(known, num_labels)
    search = OurSearch(model)
    rows = []
    for name, temperature in (("peaky", 1.0), ("flat", 3.0)):
        test = posteriors.simulate(name, texts, alphabet, temperature=temperature)
        case = f"{name}, {alphabet.num_labels} labels, beam {_PAPER['beam_width']}"
        pruned, errors = _decode(search, test, _PAPER)
        rows += [
            Row(case, "real-time factor", pruned / test.seconds),
            Row(case, "character error rate", errors),
        ]
        for title, change in _UNPRUNED.items():
            settings = {**_PAPER, "cutoff_probability": 1.0, "cutoff_symbols": num_labels, **change}
            cost = _decode(search, test[:1], settings)[0]
            part = test[: max(1, math.floor(seconds / cost))]
            all_seconds, all_errors = _decode(search, part, settings)
            pruned, errors = _decode(search, part, _PAPER)
            of_part = f"{case}, {len(part.texts)} utterances"
            factor = all_seconds / pruned
            times = pruned / part.seconds, all_seconds / part.seconds
            rows += [
                Row(of_part, "real-time factor", times[0], title, times[1], factor),
                Row(of_part, "character error rate", errors, title, all_errors),
            ]
    return rows


def _decode(
    search: OurSearch, test: Posteriors, settings: Mapping[str, Any]
) -> tuple[float, float]:
    search.prepare("", "", test, settings)
    search.run("", 0, 1)
    found = search.run("", 0, len(test.texts))
    counts = [
        metrics.character_errors(reference, text, count_spaces=False)
        for reference, text in zip(test.texts, found.texts, strict=True)
    ]
    return sum(found.cpu_seconds), metrics.total(counts).rate
