"""Recordings of any length to transcripts: words with times and confidence."""

import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from ds2_tf import audio, windows
from ds2_tf.acoustic_model import NOT_A_NUMBER, AcousticModel
from ds2_tf.decoding import settings
from ds2_tf.decoding.decoder import Decoder
from ds2_tf.decoding.greedy_stream import GreedyDecoder
from ds2_tf.errors import UserError
from ds2_tf.input_pipeline import pad
from ds2_tf.streaming import StreamingModel
from ds2_tf.streaming_recognizer import StreamingRecognizer
from ds2_tf.transcript import Symbol, Transcript, Word

__all__ = ["Transcriber", "Transcript", "Word", "hear", "recognize"]

_BLOCK_SECONDS = 10.0


class Transcriber:
    """Transcribes recordings with one model, in memory that does not grow with their length.

    A model that can follow a stream hears a recording as one. Another one hears a recording of at
    most 60 seconds whole, and a longer one in windows of 60 seconds that overlap by 10 and are
    joined where both heard the same (`ds2_tf.windows`).
    """

    def __init__(
        self, model: AcousticModel, batch_size: int = 4, decoder: Decoder | None = None
    ) -> None:
        """Takes a model.

        Args:
          model: what hears.
          batch_size: how many windows of a long recording it hears at once.
          decoder: what makes text of it; greedy by default.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be >= 1. Received: {batch_size}")
        self.model = model
        self._batch_size = batch_size
        self._decoder = decoder or GreedyDecoder(model.alphabet, model.seconds_per_frame)
        self._recognizer: StreamingRecognizer | None = None
        if model.streams_exactly:
            self._recognizer = StreamingRecognizer(StreamingModel(model), decoder=decoder)

    @classmethod
    def load(cls, workdir: str | os.PathLike) -> "Transcriber":
        """Reads model and decoder (decoder.json, else greedy) from a training run's folder.

        Raises:
          UserError: when the folder lacks a file or holds a damaged one.
        """
        model = AcousticModel.load(workdir)
        decoder = settings.load(workdir).make(model.alphabet, model.seconds_per_frame)
        return cls(model, decoder=decoder)

    def transcribe(self, source: audio.Source) -> Transcript:
        """Transcribes a path, the bytes of a sound file, or a binary file object.

        A recording without samples, or shorter than one analysis window, has no words.

        Raises:
          AudioError: naming the file, the reason and the remedy.
        """
        name = os.fspath(source) if isinstance(source, str | os.PathLike) else ""
        blocks = audio.blocks(source, self.model.sample_rate_hz, _BLOCK_SECONDS)
        try:
            return self.transcribe_blocks(blocks, name or str(getattr(source, "name", "")))
        except audio.AudioError as error:
            if error.reason != "empty":
                raise
            audio.probe(source)  # Raises for a file of no bytes, which is not a recording.
            return self.transcribe_blocks([], name)

    def transcribe_blocks(self, blocks: Iterable[np.ndarray], audio_path: str = "") -> Transcript:
        """Transcribes samples [S] float32 at the model's rate that come in blocks of any length.

        Args:
          blocks: one recording, in order.
          audio_path: its name in the result.
        """
        if self._recognizer is not None:
            for block in blocks:
                self._recognizer.accept(block)
            return dataclasses.replace(self._recognizer.finish(), audio_path=audio_path)
        rate = self.model.sample_rate_hz
        num_samples = 0

        def counted() -> Iterator[np.ndarray]:
            nonlocal num_samples
            for block in blocks:
                num_samples += len(block)
                yield block

        pieces = windows.split(
            counted(),
            round(windows.WINDOW_SECONDS * rate),
            round(windows.OVERLAP_SECONDS * rate),
        )
        alphabet = self.model.alphabet
        symbols = list(windows.join(self._hear(pieces), alphabet.spaced))
        return Transcript.of(symbols, alphabet, num_samples / rate, audio_path)

    def _hear(self, pieces: Iterator[tuple[int, np.ndarray]]) -> Iterator[windows.HeardWindow]:
        """Yields what the model hears in each window, a few windows at a time."""
        while batch := list(itertools.islice(pieces, self._batch_size)):
            heard = recognize(self.model, [samples for _, samples in batch], self._decoder)
            for (start, samples), symbols in zip(batch, heard, strict=True):
                yield self._heard_window(start, len(samples), symbols)

    def _heard_window(
        self, start: int, num_samples: int, symbols: Sequence[Symbol]
    ) -> windows.HeardWindow:
        start_seconds = start / self.model.sample_rate_hz
        end_seconds = (start + num_samples) / self.model.sample_rate_hz
        moved = [
            symbol._replace(
                start_seconds=start_seconds + symbol.start_seconds,
                end_seconds=min(start_seconds + symbol.end_seconds, end_seconds),
            )
            for symbol in symbols
        ]
        return windows.HeardWindow(start_seconds, end_seconds, moved)


def recognize(
    model: AcousticModel, waveforms: Sequence[np.ndarray], decoder: Decoder
) -> list[Sequence[Symbol]]:
    """Returns the symbols of each of B waveforms, each [S] float32 at the model's rate.

    Raises:
      UserError: when the model's output is not a number.
    """
    return decoder.decode(*hear(model, waveforms))


def hear(model: AcousticModel, waveforms: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the log-probabilities [B, T', V] float32 of B waveforms, and their lengths [B].

    Raises:
      UserError: when the model's output is not a number.
    """
    padded, lengths = pad(waveforms, np.float32)
    log_probs, frame_lengths = model.log_probabilities(tf.constant(padded), tf.constant(lengths))
    found = log_probs.numpy()
    if np.isnan(found).any():
        raise UserError(NOT_A_NUMBER)
    return found, np.asarray(frame_lengths)
