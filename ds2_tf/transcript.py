"""What was said, and when: symbols, words, transcripts."""

import dataclasses
import statistics
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ds2_tf.alphabet import Alphabet


class Symbol(NamedTuple):
    """One emitted symbol of the alphabet.

    The text is one character, or two of an alphabet of bigrams. The confidence is the symbol's own
    largest probability after greedy decoding, that of its word after beam search.
    """

    text: str
    start_seconds: float
    end_seconds: float
    confidence: float


@dataclasses.dataclass(frozen=True)
class Word:
    """A word and its time in the recording; the confidence in [0, 1] is its symbols' mean.

    The time is that of the frames in which the model writes the symbols. CTC writes a symbol but
    briefly, somewhere within its sound, so words tend to end early by a part of their last sound.
    Without spaces in the alphabet each character is a word; two that the model wrote as one symbol
    share its time and confidence.
    """

    text: str
    start_seconds: float
    end_seconds: float
    confidence: float


@dataclasses.dataclass(frozen=True)
class Transcript:
    """The words of one recording.

    Attributes:
      text: the words joined by `separator`.
      words: in order of time; none overlap but those that share a time.
      duration_seconds: of the recording.
      audio_path: where the recording came from; "" when it has no name.
      separator: " ", or "" for an alphabet without it.
    """

    text: str
    words: tuple[Word, ...]
    duration_seconds: float
    audio_path: str = ""
    separator: str = " "

    @classmethod
    def of(
        cls,
        symbols: Iterable[Symbol],
        alphabet: Alphabet,
        duration_seconds: float,
        audio_path: str = "",
    ) -> "Transcript":
        """Spells the symbols of a recording; none ends after it."""
        spaced = " " in alphabet.symbols
        clipped = (
            symbol._replace(end_seconds=min(symbol.end_seconds, duration_seconds))
            for symbol in symbols
        )
        words = tuple(spell(clipped, spaced))
        separator = " " if spaced else ""
        text = separator.join(word.text for word in words)
        return cls(text, words, duration_seconds, audio_path, separator)


def spell(symbols: Iterable[Symbol], spaced: bool) -> Iterator[Word]:
    """Yields the words that symbols spell.

    Args:
      symbols: in order of time.
      spaced: whether spaces separate the words; else each character is a word.
    """
    if not spaced:
        for symbol in symbols:
            yield from (Word(character, *symbol[1:]) for character in symbol.text.strip())
        return
    letters: list[Symbol] = []
    for symbol in symbols:
        if symbol.text != " ":
            letters.append(symbol)
        elif letters:
            yield _word(letters)
            letters = []
    if letters:
        yield _word(letters)


def _word(letters: list[Symbol]) -> Word:
    return Word(
        "".join(letter.text for letter in letters),
        letters[0].start_seconds,
        letters[-1].end_seconds,
        statistics.fmean(letter.confidence for letter in letters),
    )
