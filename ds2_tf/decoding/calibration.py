"""Confidence that means something: of words with confidence 0.8, four of five should be right."""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np
import scipy.optimize
from rapidfuzz.distance import Levenshtein

from ds2_tf.decoding.beam_search import Hypothesis
from ds2_tf.decoding.confidence import Weights, features

FEWEST = 30
"""Words of either kind, wrong and right, that a calibration takes."""

_NUM_BINS = 10
# Keeps weights finite where the features tell right from wrong without fail.
_PENALTY = 1e-3


@dataclasses.dataclass(frozen=True)
class Reliability:
    """How confidence and truth agree: words in bins of equal width over [0, 1].

    Attributes:
      counts: [N], words in each bin.
      confidences: [N], their mean confidence; NaN in an empty bin.
      accuracies: [N], the share that is right; NaN in an empty bin.
      expected_error: the expected calibration error: the mean distance of the two, by words.
    """

    counts: np.ndarray
    confidences: np.ndarray
    accuracies: np.ndarray
    expected_error: float


def judge(reference: str, hypothesis: Hypothesis) -> list[bool]:
    """Returns of each word of a hypothesis' evidence whether it stands in the reference.

    Where the evidence has single characters, these are compared.
    """
    words = [word.text for word in hypothesis.evidence]
    spoken: Sequence[str] = reference.split()
    if words != hypothesis.text.split():
        spoken = [character for character in reference if character != " "]
    is_right = [False] * len(words)
    for operation in Levenshtein.opcodes(spoken, words):
        if operation.tag == "equal":
            is_right[operation.dest_start : operation.dest_end] = [True] * (
                operation.dest_end - operation.dest_start
            )
    return is_right


def fit(words: Iterable[tuple[float, float]], is_right: Sequence[bool]) -> Weights | None:
    """Returns the weights of `confidence.of_word` under which the truth is most probable.

    None if there are too few words to learn from: less than `FEWEST` that are wrong, or right.

    Args:
      words: (mass, acoustic) of each.
      is_right: of each.
    """
    num_right = sum(is_right)
    if min(num_right, len(is_right) - num_right) < FEWEST:
        return None
    x = np.array([(*features(*word), 1.0) for word in words]).reshape(-1, 3)
    y = np.asarray(is_right, float)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        z = x @ weights
        value = np.logaddexp(0, z) - y * z
        gradient = x.T @ (1 / (1 + np.exp(-np.clip(z, -50, 50))) - y)
        size = max(len(y), 1)
        return (
            value.sum() / size + _PENALTY * (weights[:2] ** 2).sum(),
            gradient / size + 2 * _PENALTY * np.array([weights[0], weights[1], 0.0]),
        )

    # More mass and more probable symbols never make a word less credible.
    bounds = [(0.0, None), (0.0, None), (-20.0, 20.0)]
    found = scipy.optimize.minimize(
        loss, np.array([0.5, 0.5, 0.0]), jac=True, method="L-BFGS-B", bounds=bounds
    )
    a, b, c = (round(float(weight), 4) for weight in found.x)
    return a, b, c


def reliability(confidences: Sequence[float], is_right: Sequence[bool]) -> Reliability:
    """Compares confidences with the truth."""
    values = np.asarray(confidences, float)
    right = np.asarray(is_right, float)
    bins = np.minimum((values * _NUM_BINS).astype(int), _NUM_BINS - 1)
    counts = np.bincount(bins, minlength=_NUM_BINS)
    with np.errstate(invalid="ignore"):
        means = np.bincount(bins, values, _NUM_BINS) / counts
        accuracies = np.bincount(bins, right, _NUM_BINS) / counts
    gaps = np.nan_to_num(np.abs(means - accuracies)) * counts
    return Reliability(counts, means, accuracies, float(gaps.sum() / max(counts.sum(), 1)))
