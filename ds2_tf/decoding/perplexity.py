"""The measure of a language model on a text."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Perplexity:
    """How well a model predicts a text.

    Attributes:
      sentences: how many; the end of each is predicted too.
      tokens: without the ends.
      unknown: tokens outside the vocabulary.
      log_probability: the text's, a natural logarithm; unknown tokens count as <unk>.
      known_log_probability: the same without the unknown tokens' own.
    """

    sentences: int
    tokens: int
    unknown: int
    log_probability: float
    known_log_probability: float

    @property
    def unknown_rate(self) -> float:
        """Unknown tokens / tokens; 0 without tokens."""
        return self.unknown / self.tokens if self.tokens else 0.0

    @property
    def perplexity(self) -> float:
        """exp(-log_probability / events), unknown tokens and ends of sentences included."""
        return _perplexity(self.log_probability, self.tokens + self.sentences)

    @property
    def known_perplexity(self) -> float:
        """The same over what the vocabulary holds."""
        return _perplexity(self.known_log_probability, self.tokens + self.sentences - self.unknown)


def _perplexity(log_probability: float, events: int) -> float:
    return math.exp(-log_probability / events) if events else math.nan
