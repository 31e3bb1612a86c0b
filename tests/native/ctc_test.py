"""Tests the CTC kernels, the CPU's and the emulated GPU's, on chosen inputs."""

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from tests.native import ctc_library, ctc_reference

CPU_TOLERANCE = 2e-6
GPU_TOLERANCE = 2e-5
# Shared memory that makes the GPU's form keep alpha there, only the working columns, or neither.
SHARED_BYTES = {"alpha": 1 << 24, "columns": 48 * 1024, "global": 512 * 16}


def forms(ctc):
    """Yields (name, keyword arguments, gradient tolerance) of all ways to compute."""
    for instruction_set in ctc.instruction_sets:
        yield f"set {instruction_set}", {"instruction_set": instruction_set}, CPU_TOLERANCE
    for name, shared_bytes in SHARED_BYTES.items():
        yield f"gpu {name}", {"emulated_shared_bytes": shared_bytes}, GPU_TOLERANCE


def check(ctc, logits, labels, blank=0):
    """Compares one utterance, logits [T, V], with float64 in every form."""
    loss, gradient = ctc_reference.loss_and_gradient(logits, list(labels), blank)
    label_row = np.array([labels], np.int32).reshape(1, -1)
    for name, arguments, tolerance in forms(ctc):
        result = ctc(
            logits[np.newaxis], [len(logits)], label_row, [len(labels)], blank=blank, **arguments
        )
        assert result.statuses[0] == ctc_library.OK, name
        np.testing.assert_allclose(result.losses[0], loss, rtol=2e-6, atol=2e-6, err_msg=name)
        np.testing.assert_allclose(result.gradients[0], gradient, atol=tolerance, err_msg=name)
        # Without the backward pass nothing checks the forward one.
        alone = ctc(
            logits[np.newaxis], [len(logits)], label_row, [len(labels)], blank=blank,
            with_gradients=False, **arguments,
        )  # fmt: skip
        np.testing.assert_allclose(alone.losses[0], loss, rtol=2e-6, atol=2e-6, err_msg=name)


def random_case(seed, num_frames, num_symbols, num_labels, scale=1.0):
    generator = np.random.default_rng(seed)
    logits = scale * generator.normal(size=[num_frames, num_symbols])
    labels = generator.integers(1, num_symbols, size=num_labels)
    return logits.astype(np.float32), labels.tolist()


@pytest.mark.parametrize(
    "labels", [[], [1], [1, 1], [1, 2], [2, 1, 2], [1, 1, 1]], ids=lambda labels: f"{labels}"
)
@pytest.mark.parametrize("num_frames", [5, 6])
def test_equals_brute_force(ctc, labels, num_frames):
    logits, _ = random_case(1, num_frames, 3, 0)
    expected = ctc_reference.brute_force_loss(logits, labels)
    assert ctc_reference.loss_and_gradient(logits, labels)[0] == pytest.approx(expected, rel=1e-12)
    check(ctc, logits, labels)


def test_gradient_equals_finite_differences(ctc):
    logits, labels = random_case(2, 6, 4, 3)
    gradient = ctc(logits[np.newaxis], [6], np.array([labels]), [3]).gradients[0]
    step = 2.0**-6
    for index in np.ndindex(logits.shape):
        losses = []
        for sign in (1, -1):
            moved = logits.copy()
            moved[index] += sign * step
            losses.append(ctc(moved[np.newaxis], [6], np.array([labels]), [3]).losses[0])
        assert (losses[0] - losses[1]) / (2 * step) == pytest.approx(gradient[index], abs=2e-4)


def test_losses_equal_tensorflows(ctc):
    generator = np.random.default_rng(3)
    logits = generator.normal(size=[4, 50, 12]).astype(np.float32)
    labels = generator.integers(1, 12, size=[4, 9]).astype(np.int32)
    logit_lengths = np.array([50, 31, 25, 40], np.int32)
    label_lengths = np.array([9, 5, 9, 1], np.int32)
    expected = tf.nn.ctc_loss(
        labels, logits, label_lengths, logit_lengths, logits_time_major=False, blank_index=0
    )
    for name, arguments, _ in forms(ctc):
        losses = ctc(logits, logit_lengths, labels, label_lengths, **arguments).losses
        np.testing.assert_allclose(losses, expected, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0, 10.0, 30.0])
def test_precise_on_peaky_logits(ctc, scale):
    check(ctc, *random_case(4, 200, 29, 40, scale))


@pytest.mark.parametrize("blank_logit", [5.0, 10.0, 30.0, 300.0])
def test_precise_when_only_blanks_are_likely(ctc, blank_logit):
    logits, labels = random_case(5, 200, 29, 40)
    logits[:, 0] += blank_logit
    check(ctc, logits, labels)


@pytest.mark.parametrize("segments", ["AB", "BA", "ABA"])
def test_precise_where_the_best_path_underflows(ctc, segments):
    """Path A stays in the first label, path B in the last, and nothing leads from A to B midway.

    In segments of the first kind B loses 1,200 nats, in others A loses 4,000. So B is the more
    probable, yet in plain doubles it vanishes beside A: forwards, backwards, or both ways, and then
    A's probability looks sound at every frame.
    """
    logits = np.full([3 + 20 * len(segments) + 3, 4], -np.inf, np.float32)
    logits[:3, 1:] = 0.0  # where B passes the label between
    logits[-3:, 1:] = 0.0  # where A does
    for i, better in enumerate(segments):
        frames = slice(3 + 20 * i, 23 + 20 * i)
        logits[frames, 1] = 0.0 if better == "A" else -200.0
        logits[frames, 3] = 0.0 if better == "B" else -60.0
    check(ctc, logits, [1, 2, 3])


def test_precise_where_one_emission_is_tiny(ctc):
    # The best path has the probability e^-341 in one frame alone, the other twice e^-200.
    logits = np.full([4, 4], -np.inf, np.float32)
    logits[0, 1] = 0.0
    logits[1, [1, 2]] = 0.0, -341.0
    logits[2, [2, 3]] = -200.0, 0.0
    logits[3, [0, 3]] = 0.0, -200.0
    check(ctc, logits, [1, 2, 3])


def test_precise_on_a_long_utterance(ctc):
    check(ctc, *random_case(6, 1600, 29, 400))


def test_precise_with_a_large_vocabulary(ctc):
    check(ctc, *random_case(7, 100, 6000, 20))


def test_uses_the_wide_range_only_where_needed(ctc):
    assert not ctc.uses_wide_range(*random_case(8, 400, 29, 60))
    assert ctc.uses_wide_range(*random_case(8, 400, 29, 60, scale=30.0))


def test_repeats_need_blanks(ctc):
    logits, _ = random_case(9, 5, 3, 0)
    check(ctc, logits, [1, 1, 1])
    result = ctc(logits[np.newaxis], [4], np.array([[1, 1, 1]]), [3])
    assert result.statuses[0] == ctc_library.INFEASIBLE


def test_exactly_one_path(ctc):
    logits, _ = random_case(10, 7, 5, 0)
    check(ctc, logits, [1, 2, 3, 4, 3, 2, 1])


def test_any_symbol_can_be_the_blank(ctc):
    logits, _ = random_case(11, 12, 6, 0)
    check(ctc, logits, [0, 1, 1, 5], blank=3)
    check(ctc, logits, [0, 1, 1, 4], blank=5)


@pytest.mark.parametrize("num_symbols", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65, 130])
def test_every_vocabulary_size(ctc, num_symbols):
    logits, _ = random_case(12, 9, num_symbols, 0)
    check(ctc, logits, [] if num_symbols == 1 else [num_symbols - 1, 1])


def test_minus_infinity_is_probability_zero(ctc):
    logits, _ = random_case(13, 8, 5, 0)
    logits[:, 4] = -np.inf  # a symbol that the target lacks
    logits[2, 1] = -np.inf  # a label, for one frame
    logits[5, 0] = -np.inf  # the blank, for another
    check(ctc, logits, [1, 2, 1])


def test_huge_finite_logits(ctc):
    logits, _ = random_case(14, 8, 5, 0)
    logits[3, :3] = -1e9  # how attention masks exclude
    logits[:, 4] = 1e4
    check(ctc, logits, [3, 1, 2])


def test_degenerate_utterances(ctc):
    """One batch with all of them: each is judged apart, and the sound one is not disturbed."""
    generator = np.random.default_rng(15)
    cases = {  # logit length, labels, status, loss
        "nothing": (0, [], ctc_library.OK, 0.0),
        "no labels": (4, [], ctc_library.OK, None),
        "sound": (6, [1, 2], ctc_library.OK, None),
        "no frames": (0, [1], ctc_library.INFEASIBLE, np.inf),
        "too few frames": (2, [1, 1], ctc_library.INFEASIBLE, np.inf),
        "blank as label": (6, [1, 0], ctc_library.INVALID_LABEL, np.nan),
        "label beyond": (6, [5], ctc_library.INVALID_LABEL, np.nan),
        "negative label": (6, [-1], ctc_library.INVALID_LABEL, np.nan),
        "length beyond": (7, [1], ctc_library.INVALID_LENGTH, np.nan),
        "negative length": (-1, [1], ctc_library.INVALID_LENGTH, np.nan),
        "nan": (6, [1], ctc_library.INVALID_LOGIT, np.nan),
        "inf": (6, [1], ctc_library.INVALID_LOGIT, np.nan),
        "all -inf": (6, [1], ctc_library.INVALID_LOGIT, np.nan),
        "label -inf": (6, [1], ctc_library.IMPOSSIBLE, np.inf),
        "target -inf": (6, [1], ctc_library.IMPOSSIBLE, np.inf),
        "nan past the end": (5, [1], ctc_library.OK, None),
    }
    logits = generator.normal(size=[len(cases), 6, 5]).astype(np.float32)
    names = list(cases)
    logits[names.index("nan"), 3, 4] = np.nan
    logits[names.index("inf"), 3, 4] = np.inf
    logits[names.index("all -inf"), 3] = -np.inf
    logits[names.index("label -inf"), :, 1] = -np.inf
    logits[names.index("target -inf"), 3, :2] = -np.inf
    logits[names.index("nan past the end"), 5] = np.nan
    labels = np.full([len(cases), 3], 99)
    for row, (_, case_labels, _, _) in enumerate(cases.values()):
        labels[row, : len(case_labels)] = case_labels
    logit_lengths = [case[0] for case in cases.values()]
    label_lengths = [len(case[1]) for case in cases.values()]
    for form, arguments, tolerance in forms(ctc):
        result = ctc(logits, logit_lengths, labels, label_lengths, num_workers=3, **arguments)
        for row, (name, (length, case_labels, status, fixed_loss)) in enumerate(cases.items()):
            loss, gradient = fixed_loss, np.zeros([6, 5])
            if fixed_loss is None:
                loss, gradient[:length] = ctc_reference.loss_and_gradient(
                    logits[row, :length], case_labels
                )
            assert result.statuses[row] == status, (form, name)
            np.testing.assert_allclose(result.losses[row], loss, rtol=1e-6, err_msg=name)
            np.testing.assert_allclose(
                result.gradients[row], gradient, atol=tolerance, err_msg=f"{form}, {name}"
            )


@pytest.mark.parametrize("label_length", [-1, 4])
def test_label_length_out_of_range(ctc, label_length):
    logits, _ = random_case(16, 6, 5, 0)
    for name, arguments, _ in forms(ctc):
        result = ctc(logits[np.newaxis], [6], np.ones([1, 3]), [label_length], **arguments)
        assert result.statuses[0] == ctc_library.INVALID_LENGTH, name
        assert np.isnan(result.losses[0])
        assert not result.gradients.any()


@pytest.mark.parametrize("shape", [(0, 5, 4), (2, 0, 4), (2, 3, 1)])
def test_empty_axes(ctc, shape):
    for name, arguments, _ in forms(ctc):
        result = ctc(
            np.zeros(shape, np.float32), [shape[1]] * shape[0], np.zeros([shape[0], 0]),
            [0] * shape[0], **arguments,
        )  # fmt: skip
        np.testing.assert_allclose(result.losses, np.zeros(shape[0]), atol=1e-6, err_msg=name)
        np.testing.assert_allclose(result.gradients, np.zeros(shape), atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("dtype", "rounding"), [(ml_dtypes.bfloat16, 2.0**-8), (np.float16, 2.0**-11)]
)
@pytest.mark.parametrize("num_symbols", [29, 500])
def test_16_bit_logits(ctc, dtype, rounding, num_symbols):
    logits, labels = random_case(17, 40, num_symbols, 9, scale=3.0)
    logits = logits.astype(dtype)
    loss, gradient = ctc_reference.loss_and_gradient(logits.astype(np.float32), labels)
    for name, arguments, tolerance in forms(ctc):
        result = ctc(logits[np.newaxis], [40], np.array([labels]), [9], **arguments)
        assert result.losses[0] == pytest.approx(loss, rel=2e-6), name
        np.testing.assert_allclose(
            result.gradients[0].astype(np.float64), gradient, rtol=rounding, atol=tolerance,
            err_msg=name,
        )  # fmt: skip


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_every_16_bit_number_is_read_and_written(ctc, dtype):
    # One frame, two symbols, no labels: the gradient of the second is the softmax of (0, x).
    numbers = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    # Beyond a million the GPU's form takes a probability for zero.
    numbers = numbers[np.abs(numbers.astype(np.float32)) < 1e6]
    logits = np.stack([np.zeros_like(numbers), numbers], axis=1)[:, np.newaxis]
    with np.errstate(over="ignore"):
        expected = 1 / (1 + np.exp(-numbers.astype(np.float64)))
    unit = np.spacing(expected.astype(dtype)).astype(np.float64)
    for name, arguments, _ in forms(ctc):
        count = len(numbers)
        result = ctc(logits, [1] * count, np.zeros([count, 0]), [0] * count, **arguments)
        errors = np.abs(result.gradients[:, 0, 1].astype(np.float64) - expected)
        assert np.all(errors <= 0.5 * unit + 3e-7 * expected + 1e-37), name


def test_deterministic_for_any_threads_layout_and_padding(ctc):
    generator = np.random.default_rng(18)
    logits = generator.normal(size=[9, 40, 29]).astype(np.float32) * 4
    labels = generator.integers(1, 29, size=[9, 12])
    logit_lengths = generator.integers(24, 41, size=9)
    label_lengths = generator.integers(0, 13, size=9)
    for _, arguments, _ in forms(ctc):
        first = ctc(logits, logit_lengths, labels, label_lengths, **arguments)
        for num_workers, time_major, reverses in [(1, 1, 0), (2, 0, 1), (5, 1, 1)]:
            again = ctc(
                logits, logit_lengths, labels, label_lengths, num_workers=num_workers,
                time_major=time_major, reverses_threads=reverses, **arguments,
            )  # fmt: skip
            assert again.losses.tobytes() == first.losses.tobytes()
            assert np.ascontiguousarray(again.gradients).tobytes() == first.gradients.tobytes()
        padded = ctc(
            np.pad(logits, [(0, 0), (0, 7), (0, 0)], constant_values=np.nan), logit_lengths,
            np.pad(labels, [(0, 0), (0, 5)]), label_lengths, **arguments,
        )  # fmt: skip
        assert padded.losses.tobytes() == first.losses.tobytes()
        assert padded.gradients[:, :40].tobytes() == first.gradients.tobytes()
        assert not padded.gradients[:, 40:].any()


def test_loss_alone_leaves_the_gradients_alone(ctc):
    logits, labels = random_case(19, 30, 29, 8)
    for name, arguments, _ in forms(ctc):
        call = (logits[np.newaxis], [30], np.array([labels]), [8])
        result = ctc(*call, with_gradients=False, **arguments)
        assert result.losses[0] == ctc(*call, **arguments).losses[0], name
        assert np.all(result.gradients == 7)
