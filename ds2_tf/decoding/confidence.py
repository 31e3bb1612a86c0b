"""How sure a word is, from what the beam search knows of it."""

import math

Weights = tuple[float, float, float]

# Beyond it a share of the beam says no more.
_SUREST = 1 - 1e-6


def features(mass: float, acoustic: float) -> tuple[float, float]:
    """Returns what a word's confidence is made of: the logit of its mass, and `acoustic`.

    Args:
      mass: the share of the beam's probability that has the word in this place.
      acoustic: the mean of its symbols' largest log-probabilities, <= 0.
    """
    mass = min(max(mass, 1 - _SUREST), _SUREST)
    return math.log(mass / (1 - mass)), acoustic


def of_word(mass: float, acoustic: float, weights: Weights | None = None) -> float:
    """Returns a confidence in [0, 1]: with weights logistic in the features, else mass times p."""
    if weights is None:
        return mass * math.exp(acoustic)
    logit, acoustic = features(mass, acoustic)
    a, b, c = weights
    value = a * logit + b * acoustic + c
    return 1 / (1 + math.exp(-min(max(value, -50.0), 50.0)))
