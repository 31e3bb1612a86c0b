"""Greedy decoding of frames that come in pieces."""

import numpy as np

from ds2_tf.alphabet import BLANK, Alphabet
from ds2_tf.transcript import Symbol


class GreedyStream:
    """The symbols of a stream: those of `greedy.greedy_runs` for all of its frames at once.

    Attributes:
      num_frames: frames so far.
      symbols: those emitted so far; the last one may still grow.
      last_change: the frame after the last one that began a symbol.
      last_sound: the frame after the last one whose best label is neither the blank nor a space.
    """

    def __init__(self, alphabet: Alphabet, seconds_per_frame: float) -> None:
        self._alphabet = alphabet
        self._seconds_per_frame = seconds_per_frame
        self._space = alphabet.symbols.index(" ") + 1 if " " in alphabet.symbols else BLANK
        self._last_label = BLANK
        self.num_frames = 0
        self.last_change = 0
        self.last_sound = 0
        self.symbols: list[Symbol] = []

    def forget_symbols(self) -> None:
        """Drops the symbols so far, also the rest of one that is still going on; times go on."""
        self.symbols = []
        self.last_change = self.last_sound = self.num_frames

    def step(self, log_probs: np.ndarray) -> None:
        """Takes one frame: log-probabilities [V], blank at 0. Of equal values the lowest wins."""
        label = int(np.argmax(log_probs))
        probability = min(float(np.exp(log_probs[label])), 1.0)
        start = self.num_frames * self._seconds_per_frame
        self.num_frames += 1
        end = self.num_frames * self._seconds_per_frame
        if label not in (BLANK, self._space):
            self.last_sound = self.num_frames
        if label not in (BLANK, self._last_label):
            text = self._alphabet.decode([label])
            self.symbols.append(Symbol(text, start, end, probability))
            self.last_change = self.num_frames
        elif label != BLANK and self.symbols:
            symbol = self.symbols[-1]
            best = max(symbol.confidence, probability)
            self.symbols[-1] = symbol._replace(end_seconds=end, confidence=best)
        self._last_label = label
