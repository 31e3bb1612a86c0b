"""Where a sentence of an endless stream ends."""

import dataclasses
import math


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
