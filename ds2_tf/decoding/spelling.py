"""From what the library of the beam search returns to symbols and words."""

import itertools
import math
from collections.abc import Iterable, Sequence

from ds2_tf.alphabet import Alphabet
from ds2_tf.decoding import lm_text
from ds2_tf.decoding.beam_options import WordEvidence
from ds2_tf.decoding.confidence import Weights, of_word
from ds2_tf.native.decoder_library import Symbol as NativeSymbol
from ds2_tf.transcript import Symbol

LETTER, SPACE, UNIT = 0, 1, 2
"""What a label is to words: a part of one, what separates them, or one by itself."""


def kinds(alphabet: Alphabet, unit: str) -> list[int]:
    """Returns what each of V labels is, for text whose tokens are of a unit; the blank: a letter.

    Args:
      alphabet: gives the symbols.
      unit: see `lm_text`.
    """
    of_labels = [LETTER]
    for symbol in alphabet.symbols:
        if symbol == " ":
            of_labels.append(SPACE)
        elif unit == "character" or (unit == "mixed" and any(map(lm_text.is_ideograph, symbol))):
            of_labels.append(UNIT)
        else:
            of_labels.append(LETTER)
    return of_labels


class Speller:
    """Writes symbols with times and confidence."""

    def __init__(
        self,
        alphabet: Alphabet,
        kinds: Sequence[int],
        seconds_per_frame: float,
        confidence: Weights | None,
    ) -> None:
        """Takes what labels mean, the time of a frame, and how confidence is made."""
        self._texts = ("", *alphabet.symbols)
        self._kinds = kinds
        self._seconds_per_frame = seconds_per_frame
        self._confidence = confidence
        # Between spaces; else each unit is a word.
        self._units_spell_words = alphabet.spaced

    def spell(self, symbols: Iterable[NativeSymbol]) -> tuple[list[Symbol], list[WordEvidence]]:
        """Returns the symbols, and what speaks for each of their words."""
        texts, seconds = self._texts, self._seconds_per_frame
        spelt: list[Symbol] = []
        evidence: list[WordEvidence] = []
        rows = [
            (s.label, s.first_frame, s.end_frame, s.log_probability, s.word_mass) for s in symbols
        ]
        for group in self._words(rows):
            label, first, end, acoustic, mass = group[0]
            if self._kinds[label] == SPACE:
                spelt.append(Symbol(" ", first * seconds, end * seconds, 1.0))
                continue
            text = texts[label]
            if len(group) > 1:
                text = "".join([texts[row[0]] for row in group])
                acoustic = math.fsum([row[3] for row in group]) / len(group)
            word = WordEvidence(text, mass, min(acoustic, 0.0))
            evidence.append(word)
            sure = of_word(mass, word.acoustic, self._confidence)
            spelt += [
                Symbol(texts[label], first * seconds, end * seconds, sure)
                for label, first, end, _, _ in group
            ]
        return spelt, evidence

    def _words(self, rows: list[tuple]) -> Iterable[list[tuple]]:
        """Yields the rows of each word, and each space."""
        kinds, units_spell_words = self._kinds, self._units_spell_words

        def is_part(row: tuple) -> bool:
            kind = kinds[row[0]]
            return kind == LETTER or (kind == UNIT and units_spell_words)

        for is_word, run in itertools.groupby(rows, is_part):
            if is_word:
                yield list(run)
            else:
                yield from ([row] for row in run)
