"""Text while somebody speaks: partial results, sentences, the whole transcript."""

import numpy as np

from ds2_tf import endpointing
from ds2_tf.acoustic_model import NOT_A_NUMBER
from ds2_tf.decoding.greedy_stream import GreedyStream
from ds2_tf.errors import UserError
from ds2_tf.streaming import AudioStream, StreamingModel
from ds2_tf.transcript import Transcript, spell


class StreamingRecognizer:
    """Recognises one stream, whose samples come in pieces of any length.

    The pieces have no influence on frames, texts or where sentences end. Several streams are
    several recognisers, which may share their model.

      recognizer = StreamingRecognizer(StreamingModel(AcousticModel.load(workdir)))
      for samples in microphone:
          recognizer.accept(samples)
          print(recognizer.partial().text)
      print(recognizer.finish().text)
    """

    def __init__(
        self, model: StreamingModel, rules: endpointing.EndpointRules = endpointing.NEVER
    ) -> None:
        """Takes a model, and the rules by which the stream is cut into sentences.

        By default it is not: `finish` returns all of its text.
        """
        self.model = model
        self._rules = rules
        self._audio = AudioStream(model)
        self.start()

    def start(self) -> None:
        """Begins a new stream; what is left of the last one is forgotten."""
        acoustic_model = self.model.model
        self._audio.start()
        self._decoder = GreedyStream(acoustic_model.alphabet, acoustic_model.seconds_per_frame)
        self._num_samples = 0
        self._sentences: list[Transcript] = []

    def accept(self, samples: np.ndarray) -> np.ndarray:
        """Takes the next samples, and returns every frame that the look-ahead allows.

        Args:
          samples: [S] in [-1, 1] at the model's rate, or int16; any S.

        Returns:
          log-probabilities [T', V] float32.

        Raises:
          UserError: when the model's output is not a number.
          ValueError: for samples of another shape or type.
        """
        samples = _as_float(samples)
        self._num_samples += len(samples)
        return self._decode(self._audio.accept(samples))

    def partial(self) -> Transcript:
        """Returns what was said since the last sentence, as far as it is known; it may change."""
        return self._transcript()

    def sentences(self) -> list[Transcript]:
        """Returns the sentences that have ended since the last call, in order."""
        ended, self._sentences = self._sentences, []
        return ended

    def reset(self) -> None:
        """Drops the sentence so far; the stream goes on, and its times too."""
        self._decoder.forget_symbols()

    def finish(self) -> Transcript:
        """Ends the stream: returns what was said since the last sentence, and begins a new stream.

        `sentences` still returns those before.
        """
        self._decode(self._audio.finish())
        last, sentences = self._transcript(), self._sentences
        self.start()
        self._sentences = sentences
        return last

    def _decode(self, frames: np.ndarray) -> np.ndarray:
        if np.isnan(frames).any():
            raise UserError(NOT_A_NUMBER)
        for frame in frames:
            self._decoder.step(frame)
            if self._is_end():
                self._sentences.append(self._transcript())
                self._decoder.forget_symbols()
        return frames

    def _is_end(self) -> bool:
        decoder, acoustic_model = self._decoder, self.model.model
        if all(symbol.text == " " for symbol in decoder.symbols):
            return False
        frames = np.array([decoder.last_sound, decoder.last_change])
        silent, unchanged = (decoder.num_frames - frames) * acoustic_model.seconds_per_frame
        now = decoder.num_frames * acoustic_model.seconds_per_frame
        return self._rules.is_end(
            silent=silent,
            unchanged=unchanged,
            spoken=now - decoder.symbols[0].start_seconds,
            between_words=not acoustic_model.alphabet.spaced or decoder.symbols[-1].text == " ",
        )

    def _transcript(self) -> Transcript:
        acoustic_model = self.model.model
        seconds = self._num_samples / acoustic_model.sample_rate_hz
        symbols = (
            symbol._replace(end_seconds=min(symbol.end_seconds, seconds))
            for symbol in self._decoder.symbols
        )
        has_spaces = " " in acoustic_model.alphabet.symbols
        words = tuple(spell(symbols, has_spaces))
        separator = " " if has_spaces else ""
        text = separator.join(word.text for word in words)
        return Transcript(text, words, seconds, separator=separator)


def _as_float(samples: np.ndarray) -> np.ndarray:
    samples = np.asarray(samples)
    if samples.ndim != 1:
        raise ValueError(f"samples must have one dimension. Received shape: {samples.shape}")
    if samples.dtype == np.int16:
        return samples.astype(np.float32) / 32768
    if samples.dtype.kind != "f":
        raise ValueError(f"samples must be floats or int16. Received: {samples.dtype}")
    return samples.astype(np.float32, copy=False)
