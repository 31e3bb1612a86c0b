"""Text while somebody speaks: partial results, sentences, the whole transcript."""

from collections.abc import Mapping, Sequence

import numpy as np

from ds2_tf import endpointing
from ds2_tf.acoustic_model import NOT_A_NUMBER
from ds2_tf.decoding.decoder import Decoder
from ds2_tf.decoding.greedy_stream import GreedyDecoder
from ds2_tf.errors import UserError
from ds2_tf.streaming import AudioStream, StreamingModel
from ds2_tf.transcript import Symbol, Transcript


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
        self,
        model: StreamingModel,
        rules: endpointing.EndpointRules = endpointing.NEVER,
        decoder: Decoder | None = None,
        hot_words: Mapping[str, float] | None = None,
    ) -> None:
        """Takes a model, and how its frames become sentences.

        Args:
          model: may be shared by many recognizers.
          rules: by which the stream is cut into sentences; by default it is not, and `finish`
            returns all of its text. What decides are the frames, not the decoder.
          decoder: may be shared, too; greedy by default.
          hot_words: of this stream, as `start` takes them.

        Raises:
          ValueError: for hot words that the decoder cannot write; a greedy one takes none.
        """
        acoustic_model = model.model
        self.model = model
        self._rules = rules
        self._decoder = decoder or GreedyDecoder(
            acoustic_model.alphabet, acoustic_model.seconds_per_frame
        )
        self._audio = AudioStream(model)
        self.start(hot_words)

    def start(self, hot_words: Mapping[str, float] | None = None) -> None:
        """Begins a new stream; what is left of the last one is forgotten.

        Args:
          hot_words: phrases and their boosts, for this stream besides those of the decoder.
        """
        acoustic_model = self.model.model
        self._text = self._decoder.stream(hot_words)
        self._audio.start()
        self._progress = endpointing.SentenceProgress(
            self._rules, acoustic_model.alphabet, acoustic_model.seconds_per_frame
        )
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
        return self._transcript(self._text.partial())

    def sentences(self) -> list[Transcript]:
        """Returns the sentences that have ended since the last call, in order."""
        ended, self._sentences = self._sentences, []
        return ended

    def reset(self) -> None:
        """Drops the sentence so far; the stream goes on, and its times too."""
        self._text.reset()
        self._progress.begin()

    def finish(self) -> Transcript:
        """Ends the stream: returns what was said since the last sentence, and begins a new stream.

        `sentences` still returns those before. The new stream has no hot words but the decoder's.
        """
        self._decode(self._audio.finish())
        last, sentences = self._transcript(self._text.finish()), self._sentences
        self.start()
        self._sentences = sentences
        return last

    def _decode(self, frames: np.ndarray) -> np.ndarray:
        if np.isnan(frames).any():
            raise UserError(NOT_A_NUMBER)
        begin = 0
        for end, label in enumerate(np.argmax(frames, axis=1), start=1):
            if self._progress.step(int(label)):
                self._text.step(frames[begin:end])
                begin = end
                sentence = self._transcript(self._text.finish())
                self._progress.begin()
                if sentence.words:
                    self._sentences.append(sentence)
        self._text.step(frames[begin:])
        return frames

    def _transcript(self, symbols: Sequence[Symbol]) -> Transcript:
        acoustic_model = self.model.model
        seconds = self._num_samples / acoustic_model.sample_rate_hz
        return Transcript.of(symbols, acoustic_model.alphabet, seconds)


def _as_float(samples: np.ndarray) -> np.ndarray:
    samples = np.asarray(samples)
    if samples.ndim != 1:
        raise ValueError(f"samples must have one dimension. Received shape: {samples.shape}")
    if samples.dtype == np.int16:
        return samples.astype(np.float32) / 32768
    if samples.dtype.kind != "f":
        raise ValueError(f"samples must be floats or int16. Received: {samples.dtype}")
    return samples.astype(np.float32, copy=False)
