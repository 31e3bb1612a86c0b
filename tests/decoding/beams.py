"""Beam searches for tests, and language models small enough to be written by hand."""

import math

import pytest

from ds2_tf import alphabet
from ds2_tf.decoding.beam_search import BeamSearchDecoder, BeamSearchOptions
from ds2_tf.decoding.best_hypothesis import BestHypothesis
from ds2_tf.errors import UserError
from ds2_tf.native import decoder_library

ENGLISH = alphabet.english()
WIDE = BeamSearchOptions(beam_width=50, score_threshold=100.0)


def need_beam_search():
    """Skips the test where the search cannot be compiled."""
    try:
        decoder_library.load()
    except UserError as error:
        pytest.skip(str(error))


def beam(symbols=ENGLISH, options=WIDE, **arguments):
    need_beam_search()
    return BestHypothesis(BeamSearchDecoder(symbols, options, **arguments))


def write_arpa(path, words):
    """Writes a model that has each word as probable as the others, and returns its path."""
    logarithm = f"{-math.log10(len(words) + 1):.6f}"
    rows = [
        *("", "\\data\\", f"ngram 1={len(words) + 3}", "ngram 2=1"),
        *("", "\\1-grams:", "-9\t<unk>\t0", "-99\t<s>\t0", f"{logarithm}\t</s>\t0"),
        *(f"{logarithm}\t{word}\t0" for word in words),
        *("", "\\2-grams:", f"{logarithm}\t<s> {words[0]}", "", "\\end\\", ""),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(rows))
    return path
