"""Beam search as a decoder like every other: the best hypothesis alone."""

import os
from collections.abc import Mapping, Sequence

import numpy as np

from ds2_tf.alphabet import BLANK
from ds2_tf.decoding.beam_search import BeamSearchDecoder, BeamSearchStream
from ds2_tf.transcript import Symbol


class BestHypothesis:
    """Writes what a beam search finds most probable: a `decoder.Decoder`.

    Attributes:
      search: the beam search.
    """

    def __init__(self, search: BeamSearchDecoder, num_threads: int | None = None) -> None:
        """Takes a search, and how many utterances it decodes at once; by default one a CPU."""
        self.search = search
        self._num_threads = num_threads or len(os.sched_getaffinity(0))

    def decode(self, log_probs: np.ndarray, lengths: np.ndarray) -> list[Sequence[Symbol]]:
        """Returns the symbols of each utterance: see `decoder.Decoder`."""
        found = self.search.decode(log_probs, lengths, self._num_threads)
        return [hypotheses[0].symbols for hypotheses in found]

    def stream(self, hot_words: Mapping[str, float] | None = None) -> "BestHypothesisStream":
        """Begins a stream: see `decoder.Decoder`."""
        return BestHypothesisStream(self.search.stream(hot_words))


class BestHypothesisStream:
    """A stream of a beam search: a `decoder.DecoderStream`."""

    def __init__(self, search: BeamSearchStream) -> None:
        self._search = search
        self._last_label = BLANK
        self._unwanted = BLANK

    def step(self, log_probs: np.ndarray) -> None:
        """Takes frames [T', V]."""
        if len(log_probs):
            labels = np.argmax(log_probs, axis=1)
            if self._unwanted != BLANK:
                log_probs = self._without_rest(log_probs, labels)
            self._last_label = int(labels[-1])
        self._search.step(log_probs)

    def partial(self) -> Sequence[Symbol]:
        """Returns the best hypothesis so far."""
        return self._search.partial().symbols

    def finish(self) -> Sequence[Symbol]:
        """Returns the best hypothesis of what ends here, and begins a new text."""
        symbols = self._search.finish()[0].symbols
        self._unwanted = self._last_label
        return symbols

    def reset(self) -> None:
        """Drops what was heard since the last text."""
        self._search.reset()
        self._unwanted = self._last_label

    def _without_rest(self, log_probs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Makes blanks of the frames that go on with a symbol of the last text."""
        others = np.flatnonzero(labels != self._unwanted)
        count = int(others[0]) if len(others) else len(labels)
        if count < len(labels):
            self._unwanted = BLANK
        log_probs = log_probs.copy()
        log_probs[:count] = -np.inf
        log_probs[:count, BLANK] = 0
        return log_probs
