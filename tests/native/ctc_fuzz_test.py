"""Compares the CTC kernels with float64 on random batches, degenerate ones among them."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from tests.native import ctc_library, ctc_reference

SHARED_BYTES = [512 * 16, 20_000, 1 << 24]
DTYPES = [np.float32, np.float32, np.float32, ml_dtypes.bfloat16, np.float16]
# Half a step of the type, relative.
ROUNDING = {np.float32: 2.0**-24, ml_dtypes.bfloat16: 2.0**-8, np.float16: 2.0**-11}


def random_batch(generator):
    """Returns (logits [B, T, V], logit lengths, labels [B, U], label lengths, blank)."""
    num_utterances = generator.integers(1, 4)
    num_frames = generator.integers(9 if generator.random() < 0.8 else 40)
    num_symbols = generator.integers(1, 7 if generator.random() < 0.7 else 80)
    max_labels = generator.integers(0, max(2, num_frames))
    scale = generator.choice([0.1, 1.0, 1.0, 10.0, 100.0])
    logits = scale * generator.normal(size=[num_utterances, num_frames, num_symbols])
    logits[generator.random(logits.shape) < generator.choice([0.0, 0.0, 0.1])] = -np.inf
    if generator.random() < 0.05:
        logits[generator.random(logits.shape) < 0.05] = generator.choice([np.nan, np.inf])
    blank = generator.choice([0, num_symbols - 1, generator.integers(num_symbols)])
    symbols = [symbol for symbol in range(num_symbols) if symbol != blank]
    # Few different labels make repeats.
    symbols = symbols[: generator.integers(1, 4)] or [blank]
    labels = generator.choice(symbols, size=[num_utterances, max_labels])
    if generator.random() < 0.05:
        wrong = generator.random(labels.shape) < 0.2
        labels[wrong] = generator.choice([-1, blank, num_symbols, 2**31 - 1, -(2**31)])
    logit_lengths = generator.integers(0, num_frames + 1, size=num_utterances)
    if generator.random() < 0.5:
        logit_lengths[:] = num_frames
    label_lengths = generator.integers(0, max_labels + 1, size=num_utterances)
    if generator.random() < 0.03:
        logit_lengths[0] = generator.choice([-1, num_frames + 1])
    if generator.random() < 0.03:
        label_lengths[0] = generator.choice([-1, max_labels + 1])
    return logits, logit_lengths, labels, label_lengths, int(blank)


def expected_result(logits, logit_length, labels, label_length, blank):
    """Returns (status, loss, gradient [T, V]) of an utterance, by the definitions."""
    num_frames, num_symbols = logits.shape
    gradient = np.zeros([num_frames, num_symbols])
    if not (0 <= logit_length <= num_frames and 0 <= label_length <= len(labels)):
        return ctc_library.INVALID_LENGTH, np.nan, gradient
    labels = labels[:label_length].tolist()
    if any(label == blank or not 0 <= label < num_symbols for label in labels):
        return ctc_library.INVALID_LABEL, np.nan, gradient
    repeats = sum(a == b for a, b in itertools.pairwise(labels))
    if logit_length < label_length + repeats:
        return ctc_library.INFEASIBLE, np.inf, gradient
    valid = logits[:logit_length]
    if not np.all(np.isfinite(valid.max(axis=1))):
        return ctc_library.INVALID_LOGIT, np.nan, gradient
    loss, gradient[:logit_length] = ctc_reference.loss_and_gradient(valid, labels, blank)
    return (ctc_library.OK if loss < np.inf else ctc_library.IMPOSSIBLE), loss, gradient


def compare(ctc, seed):
    generator = np.random.default_rng(seed)
    logits, logit_lengths, labels, label_lengths, blank = random_batch(generator)
    dtype = DTYPES[generator.integers(len(DTYPES))]
    logits = logits.astype(dtype)
    arguments = {
        "blank": blank,
        "time_major": bool(generator.integers(2)),
        "num_workers": int(generator.integers(1, 4)),
        "instruction_set": int(generator.choice(ctc.instruction_sets)),
    }
    tolerance = 2e-6
    if generator.random() < 0.4:
        arguments["emulated_shared_bytes"] = int(generator.choice(SHARED_BYTES))
        arguments["reverses_threads"] = bool(generator.integers(2))
        tolerance = 2e-5
    result = ctc(logits, logit_lengths, labels, label_lengths, **arguments)
    for row in range(len(logits)):
        status, loss, gradient = expected_result(
            logits[row].astype(np.float32), logit_lengths[row], labels[row], label_lengths[row],
            blank,
        )  # fmt: skip
        message = f"seed {seed}, row {row}, {arguments}"
        assert result.statuses[row] == status, message
        np.testing.assert_allclose(result.losses[row], loss, rtol=2e-6, atol=2e-6, err_msg=message)
        np.testing.assert_allclose(
            result.gradients[row].astype(np.float64), gradient, atol=tolerance,
            rtol=ROUNDING[dtype], err_msg=message,
        )  # fmt: skip


def test_random_batches(ctc):
    for seed in range(2_000):
        compare(ctc, seed)


@pytest.mark.slow
def test_many_random_batches(ctc):
    for seed in range(2_000, 20_000):
        compare(ctc, seed)
