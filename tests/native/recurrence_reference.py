"""The recurrence in NumPy and float64, an utterance, a direction and a frame at a time."""

from collections.abc import Callable

import numpy as np

from tests.native.recurrence_library import Inputs, Results

CLIP = 20.0


def exact(x: np.ndarray) -> np.ndarray:
    """Returns x."""
    return x


def to_bfloat16(x: np.ndarray) -> np.ndarray:
    """Returns x rounded to bfloat16, ties to even, in float64."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return rounded.astype(np.uint32).view(np.float32).astype(np.float64)


def run(inputs: Inputs, rounded: Callable[[np.ndarray], np.ndarray] = exact) -> Results:
    """Returns outputs and gradients; the factors of all matrix products go through `rounded`."""
    directions, units, values = inputs.weights.shape
    num_utterances, num_frames, width = inputs.projected.shape
    shared = width == values
    step, pull_back = (
        (_simple_step, _simple_pull_back) if inputs.cell == "rnn" else (_gru_step, _gru_pull_back)
    )
    results = Results(
        np.zeros([num_utterances, num_frames, units]),
        np.zeros([directions, num_utterances, units]),
        np.zeros(inputs.projected.shape),
        np.zeros(inputs.weights.shape),
        np.zeros([directions, num_utterances, units]),
    )
    for d in range(directions):
        weights = rounded(inputs.weights[d].astype(np.float64))
        columns = slice(0, values) if shared else slice(d * values, (d + 1) * values)
        for b, length in enumerate(inputs.lengths):
            state = np.zeros(units) if inputs.initial is None else inputs.initial[d, b]
            frames = range(length) if d == 0 else range(length - 1, -1, -1)
            tape = []
            for t in frames:
                projected = inputs.projected[b, t, columns].astype(np.float64)
                previous, recurrent = state, rounded(state) @ weights
                state = step(projected, recurrent, previous)
                tape.append((t, projected, recurrent, previous))
                results.outputs[b, t] += state
            results.final[d, b] = state
            by_state = np.zeros(units) if inputs.by_final is None else inputs.by_final[d, b]
            for t, projected, recurrent, previous in reversed(tape):
                by_state = by_state + inputs.by_outputs[b, t]
                by_recurrent, by_projected, direct = pull_back(
                    projected, recurrent, previous, by_state
                )
                results.by_projected[b, t, columns] += by_projected
                results.by_weights[d] += np.outer(rounded(previous), rounded(by_recurrent))
                by_state = direct + weights @ rounded(by_recurrent)
            results.by_initial[d, b] = by_state
    return results


def _slope(x: np.ndarray) -> np.ndarray:
    return ((x > 0) & (x < CLIP)).astype(np.float64)


def _simple_step(projected, recurrent, _):
    return np.clip(projected + recurrent, 0, CLIP)


def _simple_pull_back(projected, recurrent, previous, gradient):
    through = _slope(projected + recurrent) * gradient
    return through, through, np.zeros_like(previous)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _gru_gates(projected, recurrent):
    (update, reset, candidate), (u, r, c) = np.split(projected, 3), np.split(recurrent, 3)
    update, reset = _sigmoid(update + u), _sigmoid(reset + r)
    return update, reset, candidate + reset * c, c


def _gru_step(projected, recurrent, previous):
    update, _, candidate, _ = _gru_gates(projected, recurrent)
    return (1 - update) * previous + update * np.clip(candidate, 0, CLIP)


def _gru_pull_back(projected, recurrent, previous, gradient):
    update, reset, candidate, recurrent_candidate = _gru_gates(projected, recurrent)
    by_candidate = gradient * update * _slope(candidate)
    by_update = gradient * (np.clip(candidate, 0, CLIP) - previous) * update * (1 - update)
    by_reset = by_candidate * recurrent_candidate * reset * (1 - reset)
    return (
        np.concatenate([by_update, by_reset, by_candidate * reset]),
        np.concatenate([by_update, by_reset, by_candidate]),
        gradient * (1 - update),
    )
