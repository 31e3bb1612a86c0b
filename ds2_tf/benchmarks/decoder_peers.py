"""Runs other beam searches on request: one JSON line in, one out, until stdin ends.

Runs as a script, in any environment with NumPy and what shall be measured
(flashlight-text, pyctcdecode with kenlm, ctc-beam-decoder): nothing of ds2_tf is imported. The
other end is `decoder_client`. Requests:
  {"systems": true} -> {"found": names of what can be imported}
  {"prepare": name, "system", "posteriors": .npz file, "lm": KenLM file, "words": text file with the
   lexicon, one a line, "settings": {"lm_weight", "word_bonus", "beam_width", ...}} -> {}
  {"run": name, "first", "count"} -> {"texts", "cpu_seconds", "wall_seconds": a list each}
What goes wrong comes back as {"error": text}. All scores are natural logarithms, so that one
lm_weight means the same to all.
"""

import functools
import importlib.util
import json
import logging
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Decode = Callable[[np.ndarray], str]
_NEVER = -1e4  # Nats: what a word outside the lexicon costs in those that could write it.


@functools.cache
def _posteriors(path: str) -> tuple[list[np.ndarray], list[str]]:
    # Log-probabilities [T, V] of each utterance; the symbols, with "" as the blank.
    with np.load(path) as arrays:
        count = sum(name.startswith("log_probs_") for name in arrays.files)
        log_probs = [np.ascontiguousarray(arrays[f"log_probs_{i}"]) for i in range(count)]
        return log_probs, [str(symbol) for symbol in arrays["symbols"]]


@functools.cache
def _words(path: str) -> list[str]:
    with open(path, encoding="utf-8") as file:
        return file.read().split()


@functools.cache
def _flashlight_lexicon(words_path: str, lm_path: str, symbols: tuple[str, ...]) -> tuple:
    from flashlight.lib.text import decoder, dictionary
    from flashlight.lib.text.decoder import kenlm

    index = {symbol: label for label, symbol in enumerate(symbols)}
    spelt = [word for word in _words(words_path) if all(c in index for c in word)]
    words = dictionary.Dictionary(spelt)
    words.add_entry("<unk>")
    lm = kenlm.KenLM(lm_path, words)
    trie = decoder.Trie(len(symbols), index[" "])
    start = lm.start(False)
    for word in spelt:
        label = words.get_index(word)
        trie.insert([index[c] for c in word + " "], label, lm.score(start, label)[1])
    trie.smear(decoder.SmearingMode.MAX)
    return words, lm, trie, index[" "]


def flashlight(posteriors: str, lm: str, words: str, settings: dict[str, Any]) -> Decode:
    """Returns flashlight-text's lexicon decoder.

    Its words end at a space, which a recording's last word doesn't have: a last frame that is
    surely a space is added, at no cost to the text. Setting of its own: score_threshold, log_add.
    """
    from flashlight.lib.text import decoder

    symbols = _posteriors(posteriors)[1]
    dictionary, model, trie, space = _flashlight_lexicon(words, lm, tuple(symbols))
    options = decoder.LexiconDecoderOptions(
        beam_size=settings["beam_width"],
        beam_size_token=settings.get("cutoff_symbols", len(symbols)),
        beam_threshold=settings["score_threshold"],
        lm_weight=settings["lm_weight"] * math.log(10),
        word_score=settings["word_bonus"],
        unk_score=-math.inf,
        sil_score=0,
        log_add=settings.get("log_add", False),
        criterion_type=decoder.CriterionType.CTC,
    )
    search = decoder.LexiconDecoder(
        options, trie, model, space, 0, dictionary.get_index("<unk>"), [], False
    )
    last = np.full((1, len(symbols)), -1e4, np.float32)
    last[0, space] = 0

    def decode(log_probs: np.ndarray) -> str:
        frames = np.ascontiguousarray(np.concatenate([log_probs, last]))
        found = search.decode(frames.ctypes.data, len(frames), len(symbols))
        if not found:
            return ""
        return " ".join(dictionary.get_entry(word) for word in found[0].words if word >= 0)

    return decode


def pyctcdecode(posteriors: str, lm: str, words: str, settings: dict[str, Any]) -> Decode:
    """Returns pyctcdecode's decoder with its own pruning."""
    import pyctcdecode as library

    return _of_unigrams(library.build_ctcdecoder, posteriors, lm, words, settings)


def ctc_beam_decoder(posteriors: str, lm: str, words: str, settings: dict[str, Any]) -> Decode:
    """Returns ctc-beam-decoder's, with its own pruning."""
    import ctc_beam_decoder as library

    return _of_unigrams(library.BeamSearchDecoder, posteriors, lm, words, settings)


def _of_unigrams(
    make: Callable[..., Any], posteriors: str, lm: str, words: str, settings: dict[str, Any]
) -> Decode:
    """Returns a decoder of one of the libraries that take the same arguments."""
    search = make(
        _posteriors(posteriors)[1],
        kenlm_model_path=lm,
        unigrams=_words(words),
        alpha=settings["lm_weight"],
        beta=settings["word_bonus"],
        unk_score_offset=_NEVER,
    )
    return lambda log_probs: search.decode(log_probs, beam_width=settings["beam_width"])


_SYSTEMS: dict[str, tuple[str, Callable[[str, str, str, dict[str, Any]], Decode]]] = {
    "flashlight": ("flashlight", flashlight),
    "pyctcdecode": ("pyctcdecode", pyctcdecode),
    "ctc-beam-decoder": ("ctc_beam_decoder", ctc_beam_decoder),
}


def _run(decode: Decode, utterances: list[np.ndarray]) -> dict[str, list]:
    found: dict[str, list] = {"texts": [], "cpu_seconds": [], "wall_seconds": []}
    for log_probs in utterances:
        wall, cpu = time.perf_counter(), time.process_time()
        text = decode(log_probs)
        found["cpu_seconds"].append(time.process_time() - cpu)
        found["wall_seconds"].append(time.perf_counter() - wall)
        found["texts"].append(text)
    return found


def _answer(request: dict[str, Any], ready: dict[str, tuple[Decode, str]]) -> dict[str, Any]:
    if "systems" in request:
        found = [n for n, (m, _) in _SYSTEMS.items() if importlib.util.find_spec(m) is not None]
        return {"found": found}
    if name := request.get("prepare"):
        path = request["posteriors"]
        make = _SYSTEMS[request["system"]][1]
        ready[name] = make(path, request["lm"], request["words"], request["settings"]), path
        return {}
    decode, path = ready[request["run"]]
    utterances = _posteriors(path)[0]
    return _run(decode, utterances[request["first"] : request["first"] + request["count"]])


def main() -> None:
    """Answers until stdin ends."""
    logging.disable(logging.WARNING)
    answers = sys.stdout
    sys.stdout = sys.stderr  # Libraries may print.
    ready: dict[str, tuple[Decode, str]] = {}
    for line in sys.stdin:
        try:
            answer = _answer(json.loads(line), ready)
        except (ImportError, RuntimeError, ValueError, TypeError, KeyError, OSError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
