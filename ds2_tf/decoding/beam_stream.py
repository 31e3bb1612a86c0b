"""Beam search through frames that come in pieces."""

import ctypes
import weakref
from typing import TYPE_CHECKING

import numpy as np

from ds2_tf.decoding.beam_options import Hypothesis, WordEvidence
from ds2_tf.native import decoder_library
from ds2_tf.transcript import Symbol

if TYPE_CHECKING:
    from ds2_tf.decoding.beam_search import BeamSearchDecoder


class BeamSearchStream:
    """The search through one stream of frames; how they are cut into pieces changes nothing.

    It holds what is not decided yet and the words before; only one thread may use it at a time.
    """

    def __init__(
        self,
        decoder: "BeamSearchDecoder",
        phrases: tuple[decoder_library.HotPhrases, tuple] | None = None,
    ) -> None:
        """Begins; use `BeamSearchDecoder.stream`."""
        self._decoder = decoder
        self._library = decoder._library
        self._symbols: list[Symbol] = []
        self._evidence: list[WordEvidence] = []
        self._error = ctypes.create_string_buffer(decoder_library.ERROR_BYTES)
        self._handle = self._library.ds2_stream_new(
            decoder._handle,
            ctypes.addressof(phrases[0]) if phrases else None,
            self._error,
            len(self._error),
        )
        if not self._handle:
            raise RuntimeError(self._error.value.decode())
        weakref.finalize(self, self._library.ds2_stream_free, self._handle)

    @property
    def num_frames(self) -> int:
        """Frames so far."""
        return self._library.ds2_stream_num_frames(self._handle)

    @property
    def num_prefixes(self) -> int:
        """Prefixes that are held: how much memory the search needs now."""
        return self._library.ds2_stream_num_prefixes(self._handle)

    @property
    def num_held_frames(self) -> int:
        """Frames that are held, to find the times of undecided symbols."""
        return self._library.ds2_stream_num_held_frames(self._handle)

    @property
    def is_empty(self) -> bool:
        """Whether the best hypothesis has no symbol; cheaper than `partial`."""
        return bool(self._library.ds2_stream_is_empty(self._handle))

    def step(self, log_probs: np.ndarray) -> None:
        """Takes frames [T', V] float32, blank at 0.

        Raises:
          ValueError: for another shape, or a frame that is no log-probabilities (NaN, values above
            0, all of them -infinity): the stream stands before that frame.
        """
        log_probs = np.ascontiguousarray(log_probs, np.float32)
        num_labels = self._decoder.alphabet.num_labels
        if log_probs.ndim != 2 or log_probs.shape[1] != num_labels:
            raise ValueError(
                f"log_probs must have shape [T', {num_labels}]. Received: {log_probs.shape}"
            )
        fine = self._library.ds2_stream_step(
            self._handle, log_probs.ctypes.data, len(log_probs), self._error, len(self._error)
        )
        if not fine:
            raise ValueError(f"log_probs: {self._error.value.decode()}")

    def partial(self) -> Hypothesis:
        """Returns what was probably said so far; the last word may be unfinished."""
        return self._best(1, is_end=False)[0]

    def hypotheses(self) -> list[Hypothesis]:
        """Returns what was said if the stream ended here, the best first; it may go on."""
        return self._best(self._decoder.options.num_hypotheses, is_end=True)

    def finish(self) -> list[Hypothesis]:
        """Returns what was said, the best first, and begins a new text."""
        hypotheses = self.hypotheses()
        self.reset()
        return hypotheses

    def reset(self) -> None:
        """Drops what was said since the last text; the stream goes on, and its times too."""
        self._symbols, self._evidence = [], []
        self._library.ds2_stream_reset(self._handle)

    def _best(self, count: int, is_end: bool) -> list[Hypothesis]:
        decoder, library = self._decoder, self._library
        num_kept = len(self._symbols)
        result = library.ds2_stream_best(
            self._handle, count, is_end, num_kept, self._error, len(self._error)
        )
        if not result:
            raise RuntimeError(self._error.value.decode())
        try:
            rows = [decoder._symbols(result, i) for i in range(library.ds2_result_size(result))]
            # What changes no more is spelt once, however long the stream.
            num_new = library.ds2_stream_num_committed(self._handle) - num_kept
            symbols, evidence = decoder._speller.spell(rows[0][:num_new])
            self._symbols += symbols
            self._evidence += evidence
            hypotheses = []
            for index, row in enumerate(rows):
                symbols, evidence = decoder._speller.spell(row[num_new:])
                symbols = self._symbols + symbols
                if symbols and symbols[-1].text == " ":
                    symbols.pop()
                evidence = self._evidence + evidence
                hypotheses.append(decoder._scored(result, index, symbols, evidence))
            return hypotheses
        finally:
            library.ds2_result_free(result)
