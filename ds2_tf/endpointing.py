"""Where a sentence of an endless stream ends."""

import dataclasses
import math

from ds2_tf.alphabet import BLANK, Alphabet


@dataclasses.dataclass(frozen=True)
class EndpointRules:
    """A sentence ends when one of these times has passed; infinity turns a rule off.

    Attributes:
      silence_seconds: since the last frame whose best symbol is neither the blank nor a space.
      stability_seconds: since the text changed last, whatever is heard: a noise, a held vowel.
      sentence_seconds: since the sentence's first symbol; it is cut at the next pause between two
        words then.
    """

    silence_seconds: float = 0.8
    stability_seconds: float = 3.0
    sentence_seconds: float = 30.0

    def __post_init__(self) -> None:
        """Rejects times that are none."""
        for name, value in dataclasses.asdict(self).items():
            if not value > 0:
                raise ValueError(f"{name} must be > 0. Received: {value}")

    def is_end(self, silent: float, unchanged: float, spoken: float, between_words: bool) -> bool:
        """Returns whether the sentence is over.

        Args:
          silent: seconds since the last sound.
          unchanged: seconds since the last symbol began.
          spoken: seconds since the first symbol began.
          between_words: whether the last frame belongs to no word.
        """
        return (
            silent >= self.silence_seconds
            or unchanged >= self.stability_seconds
            or (between_words and spoken >= self.sentence_seconds)
        )


NEVER = EndpointRules(math.inf, math.inf, math.inf)


class SentenceProgress:
    """What the rules ask of a stream: told by the most probable label of each frame alone.

    So sentences end at the same frames whatever decoder writes their text.
    """

    def __init__(self, rules: EndpointRules, alphabet: Alphabet, seconds_per_frame: float) -> None:
        """Begins a stream."""
        self._rules = rules
        self._seconds_per_frame = seconds_per_frame
        self._spaced = alphabet.spaced
        self._space = alphabet.symbols.index(" ") + 1 if " " in alphabet.symbols else BLANK
        self._last_label = BLANK
        self._num_frames = 0
        self.begin()

    def begin(self) -> None:
        """Begins a new sentence; a symbol that is still going on is not its first."""
        self._first_symbol: int | None = None
        self._has_word = False
        self._after_space = False
        self._last_change = self._last_sound = self._num_frames

    def step(self, label: int) -> bool:
        """Takes a frame's most probable label, and returns whether the sentence is over."""
        self._num_frames += 1
        if label not in (BLANK, self._space):
            self._last_sound = self._num_frames
        if label not in (BLANK, self._last_label):
            if self._first_symbol is None:
                self._first_symbol = self._num_frames - 1
            self._has_word |= label != self._space
            self._after_space = label == self._space
            self._last_change = self._num_frames
        self._last_label = label
        if not self._has_word or self._first_symbol is None:
            return False
        return self._rules.is_end(
            silent=(self._num_frames - self._last_sound) * self._seconds_per_frame,
            unchanged=(self._num_frames - self._last_change) * self._seconds_per_frame,
            spoken=(self._num_frames - self._first_symbol) * self._seconds_per_frame,
            between_words=not self._spaced or self._after_space,
        )
