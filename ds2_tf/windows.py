"""Long recordings in overlapping windows, and one text from what was heard in each.

Two neighbours hear the overlap twice, each badly at its own edge. Their texts are joined where both
heard the same at the same time, as near to the overlap's middle as possible.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ds2_tf.transcript import Symbol

WINDOW_SECONDS = 60.0
OVERLAP_SECONDS = 10.0
# A symbol's peak moves by a frame or two (20 ms each) when the model hears another context.
_SAME_TIME_SECONDS = 0.2


@dataclasses.dataclass(frozen=True)
class HeardWindow:
    """The symbols of one window, in order; all times count from the recording's start."""

    start_seconds: float
    end_seconds: float
    symbols: Sequence[Symbol]


def split(
    blocks: Iterable[np.ndarray], window_samples: int, overlap_samples: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Yields the windows of a recording: (first sample, samples [S]).

    A recording of at most `window_samples` is one window, whatever its length, even 0. Of a longer
    one, each window but the last is full, and the last is longer than the overlap. Never more than
    a window and a block are held.

    Args:
      blocks: the recording's samples in blocks of any length.
      window_samples: the largest window.
      overlap_samples: what a window shares with the one before it; less than a window.
    """
    if not 0 <= overlap_samples < window_samples:
        raise ValueError(
            "overlap_samples must be >= 0 and less than window_samples. "
            f"Received: {overlap_samples} and {window_samples}"
        )
    step = window_samples - overlap_samples
    start = 0
    held = np.zeros(0, np.float32)
    for block in blocks:
        held = np.concatenate([held, block])
        while len(held) > window_samples:
            yield start, held[:window_samples]
            start, held = start + step, held[step:]
    yield start, held


def join(windows: Iterable[HeardWindow], spaced: bool) -> Iterator[Symbol]:
    """Yields the symbols of a recording from those of its windows, nothing twice and nothing lost.

    Neighbours are cut at a word that both heard (the same text within 0.2 seconds), the nearest to
    the middle of their overlap. Without one, where neither heard anything, nearest to the middle.
    Without that either, the same is tried with single symbols; then the middle divides them.

    Args:
      windows: in order; each overlaps the one before it.
      spaced: whether spaces separate the words; else cuts may lie between any two symbols.
    """
    held: Sequence[Symbol] = ()
    held_until: float | None = None
    emitted_until = 0.0
    for window in windows:
        if held_until is None:
            held, held_until = window.symbols, window.end_seconds
            continue
        left, right, at_word = _cut(held, window.symbols, window.start_seconds, held_until, spaced)
        for symbol in held[:left]:
            yield _not_before(symbol, emitted_until)
            emitted_until = max(emitted_until, symbol.end_seconds)
        if at_word:
            yield Symbol(" ", emitted_until, emitted_until, 1.0)
        held, held_until = window.symbols[right:], window.end_seconds
    for symbol in held:
        yield _not_before(symbol, emitted_until)


def _not_before(symbol: Symbol, seconds: float) -> Symbol:
    """Keeps the order of times where two windows disagree by a frame."""
    start = max(symbol.start_seconds, seconds)
    return symbol._replace(start_seconds=start, end_seconds=max(symbol.end_seconds, start))


class _Unit(NamedTuple):
    """A word or a symbol that a cut leaves whole; `first` is the index of its first symbol."""

    text: str
    start_seconds: float
    end_seconds: float
    first: int


def _cut(
    left: Sequence[Symbol], right: Sequence[Symbol], start: float, end: float, spaced: bool
) -> tuple[int, int, bool]:
    """Finds where two neighbours that share the time from `start` to `end` are cut.

    Returns:
      how many symbols of `left` are taken, how many of `right` are dropped, and whether the cut
      lies between words that spaces separate.
    """
    middle = (start + end) / 2
    if spaced:
        words = _words(left), _words(right)
        cut = _agreed_cut(*words, start, end) or _silent_cut(*words, start, end)
        if cut:
            return *cut, True
    symbols = _symbols(left), _symbols(right)
    cut = _agreed_cut(*symbols, start, end) or _silent_cut(*symbols, start, end)
    return *(cut or _cut_at(middle, *symbols)), False


def _symbols(symbols: Sequence[Symbol]) -> list[_Unit]:
    units = [_Unit(*symbol[:3], index) for index, symbol in enumerate(symbols)]
    return [*units, _end(symbols)]


def _words(symbols: Sequence[Symbol]) -> list[_Unit]:
    words: list[_Unit] = []
    begins = True
    for index, symbol in enumerate(symbols):
        if symbol.text != " " and begins:
            words.append(_Unit(*symbol[:3], index))
        elif symbol.text != " ":
            text = words[-1].text + symbol.text
            words[-1] = words[-1]._replace(text=text, end_seconds=symbol.end_seconds)
        begins = symbol.text == " "
    return [*words, _end(symbols)]


def _end(symbols: Sequence[Symbol]) -> _Unit:
    """What a cut after the last unit finds."""
    return _Unit("", math.inf, math.inf, len(symbols))


def _agreed_cut(
    left: list[_Unit], right: list[_Unit], start: float, end: float
) -> tuple[int, int] | None:
    """Cuts before the unit that both heard nearest to the middle of the overlap."""
    shared = [
        [unit for unit in units if start <= unit.start_seconds and unit.end_seconds <= end]
        for units in (left, right)
    ]
    agreed = []
    for unit in shared[0]:
        twin = _twin(unit, shared[1])
        # Of a repeated word ("no no") each must be the other's nearest.
        if twin and unit.text != " " and _twin(twin, shared[0]) is unit:
            agreed.append((unit, twin))
    if not agreed:
        return None
    middle = (start + end) / 2
    unit, twin = min(agreed, key=lambda pair: abs(_middle(pair[0]) - middle))
    return unit.first, twin.first


def _twin(unit: _Unit, others: list[_Unit]) -> _Unit | None:
    """Returns the nearest unit of the same text, if it is at the same time."""
    same = [other for other in others if other.text == unit.text]
    if not same:
        return None
    nearest = min(same, key=lambda other: abs(other.start_seconds - unit.start_seconds))
    apart = abs(nearest.start_seconds - unit.start_seconds)
    return nearest if apart <= _SAME_TIME_SECONDS else None


def _silent_cut(
    left: list[_Unit], right: list[_Unit], start: float, end: float
) -> tuple[int, int] | None:
    """Cuts at the time nearest to the middle of the overlap that lies in no unit of either."""
    middle = (start + end) / 2
    units = [u for u in (*left, *right) if u.end_seconds > start and u.start_seconds < end]
    times = [middle, *(time for unit in units for time in unit[1:3] if start <= time <= end)]
    for time in sorted(times, key=lambda time: abs(time - middle)):
        if not any(unit.start_seconds < time < unit.end_seconds for unit in units):
            return _cut_at(time, left, right)
    return None


def _cut_at(time: float, left: list[_Unit], right: list[_Unit]) -> tuple[int, int]:
    """Gives each side the units whose middle lies on it."""
    before, after = (
        next(unit.first for unit in units if _middle(unit) >= time) for units in (left, right)
    )
    return before, after


def _middle(unit: _Unit) -> float:
    return (unit.start_seconds + unit.end_seconds) / 2
