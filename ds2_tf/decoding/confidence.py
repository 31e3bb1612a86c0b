"""How sure a word is, from what the beam search knows of it."""

import math

Weights = tuple[float, float, float]

# Beyond it a share of the beam, or a probability, says no more.
_SUREST = 1 - 1e-3


def features(mass: float, acoustic: float) -> tuple[float, float]:
    """Returns what a word's confidence is made of: the logits of its mass and its probability.

    Args:
      mass: the share of the beam's probability that has the word in this place.
      acoustic: the mean of its symbols' largest log-probabilities, <= 0.
    """
    return _logit(mass), _logit(math.exp(acoustic))


def of_word(mass: float, acoustic: float, weights: Weights | None = None) -> float:
    """Returns a confidence in [0, 1]: with weights logistic in the features, else mass times p."""
    if weights is None:
        return mass * math.exp(acoustic)
    of_mass, of_symbols = features(mass, acoustic)
    a, b, c = weights
    value = a * of_mass + b * of_symbols + c
    return 1 / (1 + math.exp(-min(max(value, -50.0), 50.0)))


def _logit(share: float) -> float:
    share = min(max(share, 1 - _SUREST), _SUREST)
    return math.log(share / (1 - share))
