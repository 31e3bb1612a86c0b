"""What every decoder does, whichever way it searches: from log-probabilities to symbols."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from ds2_tf.transcript import Symbol


class DecoderStream(Protocol):
    """The symbols of one stream, whose frames come in pieces of any length.

    How the frames are cut changes nothing. Times count from the stream's start, also in later
    texts.
    """

    def step(self, log_probs: np.ndarray) -> None:
        """Takes the next frames: log-probabilities [T', V] float32, blank at 0; T' may be 0."""

    def partial(self) -> Sequence[Symbol]:
        """Returns what was written since the last text, as far as it is known; it may change."""

    def finish(self) -> Sequence[Symbol]:
        """Returns what was written since the last text, which ends here, and begins a new one."""

    def reset(self) -> None:
        """Drops what was written since the last text, and begins a new one.

        Of a symbol that is still going on, the rest does not come back either.
        """


class Decoder(Protocol):
    """Decodes utterances and streams; threads may share it.

    Both give symbols of one kind: text, times in seconds, confidence in [0, 1]; spaces are symbols.
    """

    def decode(self, log_probs: np.ndarray, lengths: np.ndarray) -> list[Sequence[Symbol]]:
        """Returns the symbols of each of B utterances.

        Args:
          log_probs: [B, T', V] float32, blank at 0. Frames past the length may hold anything.
          lengths: [B], valid frames.
        """

    def stream(self, hot_words: Mapping[str, float] | None = None) -> DecoderStream:
        """Begins a stream.

        Args:
          hot_words: phrases that are likelier in this stream than elsewhere, with their boosts.

        Raises:
          ValueError: for hot words that the decoder cannot write; a greedy one takes none.
        """
