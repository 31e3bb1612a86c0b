"""How a beam search decides, and what it returns."""

import dataclasses
import math
from typing import NamedTuple

from ds2_tf.transcript import Symbol

MAX_SCORE_THRESHOLD = 600.0


@dataclasses.dataclass(frozen=True)
class BeamSearchOptions:
    """What a beam search maximises, and what it spares itself.

    It maximises ln p_ctc(y) + lm_weight ln p_lm(y) + word_bonus word_count(y). Without a language
    model the two weights and the penalty are not used.

    Attributes:
      beam_width: hypotheses that live on after a frame.
      lm_weight: of the language model's log-probabilities, >= 0 (the paper's alpha).
      word_bonus: for each word, or character of a model of characters (the paper's beta).
      cutoff_probability: only the fewest symbols of a frame whose probabilities add up to this are
        tried, and the blank.
      cutoff_symbols: and at most so many.
      score_threshold: nats below the best by which a hypothesis is given up, in (0, 600].
      unknown_penalty: added to the log-probability of each word that the model does not know.
      closed: whether only words of the language model, hot and allowed words may be written.
      hot_space_share: a hot phrase ends at a space only in frames where the space has this share of
        the largest probability, in [0, 1]: so that no boost, however large, splits other words.
      num_hypotheses: how many are returned at most.
      confidence: (a, b, c): a word's confidence is 1 / (1 + exp(-(a logit(mass) + b logit(p) + c)))
        with its share of the beam's probability and its symbols' (geometric) mean probability, as
        tuning finds them. None: mass times p.

    Raises:
      ValueError: for a value outside its range.

    Source: Deep Speech 2, sections 3.8 and 7.3.
    """

    beam_width: int = 500
    lm_weight: float = 0.5
    word_bonus: float = 1.0
    cutoff_probability: float = 0.99
    cutoff_symbols: int = 40
    score_threshold: float = 20.0
    unknown_penalty: float = -5.0
    closed: bool = False
    hot_space_share: float = 0.2
    num_hypotheses: int = 1
    confidence: tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        for name in ("beam_width", "cutoff_symbols", "num_hypotheses"):
            if not 1 <= getattr(self, name) < 2**31:
                raise ValueError(f"{name} must be >= 1. Received: {getattr(self, name)}")
        for name in ("lm_weight", "word_bonus", "unknown_penalty"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name} must be finite. Received: {getattr(self, name)}")
        if self.lm_weight < 0:
            raise ValueError(f"lm_weight must be >= 0. Received: {self.lm_weight}")
        if not 0 < self.cutoff_probability <= 1:
            raise ValueError(
                f"cutoff_probability must lie in (0, 1]. Received: {self.cutoff_probability}"
            )
        if not 0 <= self.hot_space_share <= 1:
            raise ValueError(
                f"hot_space_share must lie in [0, 1]. Received: {self.hot_space_share}"
            )
        if not 0 < self.score_threshold <= MAX_SCORE_THRESHOLD:
            raise ValueError(
                f"score_threshold must lie in (0, {MAX_SCORE_THRESHOLD:g}]. "
                f"Received: {self.score_threshold}"
            )


class WordEvidence(NamedTuple):
    """What speaks for a word: from it confidence is made.

    `mass` is the share of the beam's probability that has the word in this place, `acoustic` the
    mean of the largest log-probabilities of its symbols.
    """

    text: str
    mass: float
    acoustic: float


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """One text that a recording may say.

    Attributes:
      symbols: with times and confidence, those of a word all with the word's; spaces are symbols.
      score: acoustic_score + language_score, what the search maximises (nats).
      acoustic_score: ln p_ctc.
      language_score: of language model, words and hot phrases.
      evidence: of each word, in order.
    """

    symbols: tuple[Symbol, ...]
    score: float
    acoustic_score: float
    language_score: float
    evidence: tuple[WordEvidence, ...] = ()

    @property
    def text(self) -> str:
        """The symbols' text."""
        return "".join(symbol.text for symbol in self.symbols)
