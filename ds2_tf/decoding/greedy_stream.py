"""Greedy decoding of frames that come in pieces, or as whole utterances; without TensorFlow."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from ds2_tf.alphabet import BLANK, Alphabet
from ds2_tf.transcript import Symbol


class GreedyDecoder:
    """Writes the most probable symbol of each frame: a `decoder.Decoder`.

    A symbol's time is that of the frames in which it is the most probable one, its confidence its
    largest probability there.
    """

    def __init__(self, alphabet: Alphabet, seconds_per_frame: float) -> None:
        """Takes what the labels mean, and the time between two frames."""
        self._alphabet = alphabet
        self._seconds_per_frame = seconds_per_frame

    def decode(self, log_probs: np.ndarray, lengths: np.ndarray) -> list[Sequence[Symbol]]:
        """Returns the symbols of each utterance: see `decoder.Decoder`."""
        found: list[Sequence[Symbol]] = []
        for row, length in zip(log_probs, lengths, strict=True):
            stream = self.stream()
            stream.step(row[:length])
            found.append(stream.partial())
        return found

    def stream(self, hot_words: Mapping[str, float] | None = None) -> "GreedyStream":
        """Begins a stream: see `decoder.Decoder`."""
        if hot_words:
            raise ValueError("a greedy decoder takes no hot words; use beam search")
        return GreedyStream(self._alphabet, self._seconds_per_frame)


class GreedyStream:
    """The symbols of a stream: those of `greedy.greedy_runs` for all of its frames at once.

    Attributes:
      num_frames: frames so far.
    """

    def __init__(self, alphabet: Alphabet, seconds_per_frame: float) -> None:
        self._alphabet = alphabet
        self._seconds_per_frame = seconds_per_frame
        self._last_label = BLANK
        self._symbols: list[Symbol] = []
        self.num_frames = 0

    def step(self, log_probs: np.ndarray) -> None:
        """Takes frames [T', V], blank at 0. Of equal values the lowest label wins."""
        labels = np.argmax(log_probs, axis=1)
        peaks = log_probs[np.arange(len(labels)), labels]
        begins = np.flatnonzero(np.diff(labels, prepend=-1))
        for first, end in itertools.pairwise([*begins.tolist(), len(labels)]):
            probability = min(float(np.exp(peaks[first:end].max())), 1.0)
            self._add(int(labels[first]), self.num_frames + first, end - first, probability)
        self.num_frames += len(labels)

    def partial(self) -> list[Symbol]:
        """Returns the symbols since the last text; the last one may still grow."""
        return list(self._symbols)

    def finish(self) -> list[Symbol]:
        """Returns the symbols since the last text, and begins a new one."""
        symbols = self._symbols
        self.reset()
        return symbols

    def reset(self) -> None:
        """Drops the symbols so far, also the rest of one that is still going on; times go on."""
        self._symbols = []

    def _add(self, label: int, first: int, num_frames: int, probability: float) -> None:
        """Adds a run of frames with the same best label, which may continue the last symbol."""
        end_seconds = float(first + num_frames) * self._seconds_per_frame
        if label not in (BLANK, self._last_label):
            start_seconds = float(first) * self._seconds_per_frame
            text = self._alphabet.decode([label])
            self._symbols.append(Symbol(text, start_seconds, end_seconds, probability))
        elif label != BLANK and self._symbols:
            symbol = self._symbols[-1]
            best = max(symbol.confidence, probability)
            self._symbols[-1] = symbol._replace(end_seconds=end_seconds, confidence=best)
        self._last_label = label
