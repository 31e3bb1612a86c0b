"""CTC in float64, written for clarity: what the native kernels are compared with.

Axes: T frames, V symbols with the blank, U labels.
"""

import itertools

import numpy as np


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Returns the log-probabilities [T, V], float64, of logits [T, V]."""
    logits = logits.astype(np.float64)
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def loss_and_gradient(
    logits: np.ndarray, labels: list[int], blank: int = 0
) -> tuple[float, np.ndarray]:
    """Returns -log p(labels | logits) and its gradient [T, V], by log-domain forward-backward.

    The labels must be feasible; the loss is infinite, and the gradient zero, where every path has
    probability zero.
    """
    num_frames, num_symbols = logits.shape
    if num_frames == 0:
        return 0.0, np.zeros([0, num_symbols])
    log_probs = log_softmax(logits)
    states = np.full(2 * len(labels) + 1, blank)
    states[1::2] = labels
    can_skip = np.zeros(len(states), bool)
    can_skip[3::2] = states[3::2] != states[1:-2:2]
    emissions = log_probs[:, states]

    with np.errstate(divide="ignore", invalid="ignore"):
        alphas = _forward(emissions, can_skip)
        # Backwards, a path skips from s to s - 2 where forwards it skips from s - 2 to s.
        betas = _forward(emissions[::-1, ::-1], np.roll(can_skip[::-1], 2))[::-1, ::-1]
        log_likelihood = np.logaddexp.reduce(alphas[-1, -2:])
        if log_likelihood == -np.inf:
            return np.inf, np.zeros([num_frames, num_symbols])
        # Both alpha and beta hold the frame's own emission.
        posteriors = np.where(
            np.isfinite(emissions), np.exp(alphas + betas - emissions - log_likelihood), 0.0
        )
    occupancies = np.zeros([num_frames, num_symbols])
    for state, symbol in enumerate(states):
        occupancies[:, symbol] += posteriors[:, state]
    return -log_likelihood, np.exp(log_probs) - occupancies


def _forward(emissions: np.ndarray, can_skip: np.ndarray) -> np.ndarray:
    """Returns log alpha [T, states], emissions of the frame included."""
    alphas = np.full(emissions.shape, -np.inf)
    alphas[0, :2] = emissions[0, :2]
    for t in range(1, len(emissions)):
        stay = alphas[t - 1]
        step = np.concatenate([[-np.inf], stay[:-1]])
        skip = np.where(can_skip, np.concatenate([[-np.inf, -np.inf], stay])[: len(stay)], -np.inf)
        alphas[t] = np.logaddexp(np.logaddexp(stay, step), skip) + emissions[t]
    return alphas


def brute_force_loss(logits: np.ndarray, labels: list[int], blank: int = 0) -> float:
    """Returns -log of the summed probability of all paths that collapse to the labels."""
    log_probs = log_softmax(logits)
    total = 0.0
    for path in itertools.product(range(logits.shape[1]), repeat=len(logits)):
        collapsed = [symbol for symbol, _ in itertools.groupby(path) if symbol != blank]
        if collapsed == labels:
            total += np.exp(sum(log_probs[t, symbol] for t, symbol in enumerate(path)))
    return -np.log(total)
