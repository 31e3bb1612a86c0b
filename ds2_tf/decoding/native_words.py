"""Words and phrases in the form in which the library of the beam search takes them."""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from ds2_tf.alphabet import BLANK, Alphabet
from ds2_tf.decoding.spelling import LETTER, SPACE, UNIT
from ds2_tf.native import decoder_library


def characters_of(alphabet: Alphabet) -> np.ndarray:
    """Returns the labels of the characters that each label stands for [V, 2] int32; 0: none."""
    labels = {symbol: label for label, symbol in enumerate(alphabet.symbols, start=1)}
    characters = np.full((alphabet.num_labels, 2), BLANK, np.int32)
    for symbol, label in labels.items():
        for i, character in enumerate(symbol):
            characters[label, i] = labels[character]
    return characters


def with_boundaries(
    labels: Iterable[int], kinds: Sequence[int], units_spell_words: bool
) -> list[int]:
    """Returns a phrase with a boundary at either end, between words, and around units."""
    phrase = [decoder_library.BOUNDARY]
    for label in labels:
        is_word = kinds[label] == UNIT and not units_spell_words
        if (kinds[label] == SPACE or is_word) and phrase[-1] != decoder_library.BOUNDARY:
            phrase.append(decoder_library.BOUNDARY)
        if kinds[label] != SPACE:
            phrase.append(label)
        if is_word:
            phrase.append(decoder_library.BOUNDARY)
    if phrase[-1] != decoder_library.BOUNDARY:
        phrase.append(decoder_library.BOUNDARY)
    return phrase


def words_of(
    labels: Iterable[int], kinds: Sequence[int], units_spell_words: bool
) -> list[list[int]]:
    """Returns the labels of each word of a phrase."""
    words: list[list[int]] = []
    last = SPACE
    for label in labels:
        kind = kinds[label]
        if kind == UNIT and units_spell_words:
            kind = LETTER
        if kind != SPACE:
            if kind == UNIT or last != LETTER:
                words.append([])
            words[-1].append(label)
        last = kind
    return words


def native_words(words: Sequence[tuple[list[int], int]]) -> tuple[decoder_library.Words, tuple]:
    """Returns words for the library, and the arrays that must live as long."""
    labels, ends = ragged(labels for labels, _ in words)
    tokens = np.array([token for _, token in words], np.uint32)
    native = decoder_library.Words(
        num_words=len(words),
        labels=labels.ctypes.data,
        ends=ends.ctypes.data,
        tokens=tokens.ctypes.data,
    )
    return native, (labels, ends, tokens)


def ragged(rows: Iterable[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows' labels one after the other, and where each row ends."""
    rows = list(rows)
    labels = np.fromiter(itertools.chain.from_iterable(rows), np.int32)
    return labels, np.cumsum([len(row) for row in rows], dtype=np.uintp)
