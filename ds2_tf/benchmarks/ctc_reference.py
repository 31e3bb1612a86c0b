"""CTC in float64 by NumPy, many utterances at once: what gradients are compared with.

Axes: B utterances, T frames, V symbols with the blank 0, U labels, S = 2 U + 1 states.
"""

import numpy as np


def gradient(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Returns the gradient [B, T, V] of -log p(labels | logits) by the logits, float64.

    By forward and backward sums over paths in the log domain.

    Args:
      logits: [B, T, V]; all frames are valid.
      labels: [B, U] in [1, V), all valid, and few enough for the frames.
    """
    logits = logits.astype(np.float64)
    logits = logits - logits.max(2, keepdims=True)
    log_probabilities = logits - np.log(np.exp(logits).sum(2, keepdims=True))
    batch_size, num_labels = labels.shape
    states = np.zeros((batch_size, 2 * num_labels + 1), np.int64)
    states[:, 1::2] = labels
    can_skip = np.zeros(states.shape, bool)
    can_skip[:, 3::2] = labels[:, 1:] != labels[:, :-1]
    emissions = np.take_along_axis(log_probabilities, states[:, np.newaxis], 2)
    alphas = _forward(emissions, can_skip)
    # Backward, a path skips from s to s - 2 where forward it skips from s - 2 to s.
    backward_skip = np.roll(can_skip[:, ::-1], 2, axis=1)
    betas = _forward(emissions[:, ::-1, ::-1], backward_skip)[:, ::-1, ::-1]
    total = np.logaddexp.reduce(alphas[:, -1, -2:], axis=1)
    # Both alpha and beta hold the frame's own emission.
    occupancies = np.exp(alphas + betas - emissions - total[:, np.newaxis, np.newaxis])
    by_logits = np.exp(log_probabilities)
    for row in range(batch_size):
        np.subtract.at(by_logits[row].T, states[row], occupancies[row].T)
    return by_logits


def _forward(emissions: np.ndarray, can_skip: np.ndarray) -> np.ndarray:
    """Returns log alpha [B, T, S], emissions of the frame included."""
    alphas = np.full(emissions.shape, -np.inf)
    alphas[:, 0, :2] = emissions[:, 0, :2]
    for t in range(1, emissions.shape[1]):
        stay = alphas[:, t - 1]
        step = np.pad(stay[:, :-1], ((0, 0), (1, 0)), constant_values=-np.inf)
        skip = np.pad(stay[:, :-2], ((0, 0), (2, 0)), constant_values=-np.inf)
        arriving = np.logaddexp(np.logaddexp(stay, step), np.where(can_skip, skip, -np.inf))
        alphas[:, t] = arriving + emissions[:, t]
    return alphas
