import itertools

import numpy as np
import pytest
import tensorflow as tf

from ds2_tf.ops import ctc, ctc_portable


def collapse(path):
    return tuple(label for label, _ in itertools.groupby(path) if label)


def brute_force(logits, labels):
    """-log of the summed probability of all paths that collapse to the labels."""
    logits = np.asarray(logits, np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    total = sum(
        np.exp(sum(log_probs[t, label] for t, label in enumerate(path)))
        for path in itertools.product(range(logits.shape[1]), repeat=len(logits))
        if collapse(path) == tuple(labels)
    )
    return -np.log(total)


def pad(sequences):
    width = max(map(len, sequences))
    return np.array([[*s, *[77] * (width - len(s))] for s in sequences], np.int32).reshape(
        -1, width
    )


def loss(logits, logit_lengths, labels):
    return ctc.ctc_loss(
        tf.constant(logits, tf.float32),
        tf.constant(logit_lengths, tf.int32),
        tf.constant(pad(labels)),
        tf.constant([len(row) for row in labels], tf.int32),
    )


def test_equals_the_enumeration_of_all_paths(way):
    generator = np.random.default_rng(0)
    labels = [[1, 2], [1, 1], [2], [], [3, 1, 3], [], [2, 2, 2]]
    lengths = [4, 3, 1, 5, 3, 0, 5]
    logits = generator.normal(0, 2, (7, 5, 4))
    found = loss(logits, lengths, labels).numpy()
    for i, (row, length) in enumerate(zip(labels, lengths, strict=True)):
        np.testing.assert_allclose(
            found[i], brute_force(logits[i, :length], row), rtol=1e-5, atol=1e-6
        )


def test_gradient_equals_finite_differences_of_the_enumeration(way):
    generator = np.random.default_rng(1)
    logits = generator.normal(0, 1, (2, 3, 3))
    labels, lengths = [[1, 2], []], [3, 2]
    variable = tf.constant(logits, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(variable)
        total = tf.reduce_sum(loss(variable, lengths, labels))
    gradient = tape.gradient(total, variable).numpy()
    for b, t, v in np.ndindex(2, 3, 3):
        shifted = [logits[b].copy(), logits[b].copy()]
        shifted[0][t, v] -= 1e-5
        shifted[1][t, v] += 1e-5
        low, high = (brute_force(x[: lengths[b]], labels[b]) for x in shifted)
        np.testing.assert_allclose(gradient[b, t, v], (high - low) / 2e-5, atol=1e-4)


def test_padding_has_no_influence(way):
    generator = np.random.default_rng(2)
    logits = generator.normal(size=(2, 6, 5)).astype(np.float32)
    labels, lengths = [[1, 2], [4]], [6, 3]
    clean = loss(logits, lengths, labels)
    logits[1, 3:] = np.nan
    variable = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(variable)
        spoiled = loss(variable, lengths, labels)
    np.testing.assert_array_equal(clean, spoiled)
    gradient = tape.gradient(spoiled, variable).numpy()
    assert np.isfinite(gradient).all()
    assert not gradient[1, 3:].any()


@pytest.mark.parametrize(
    ("labels", "needed"), [([], 0), ([1], 1), ([1, 1, 2], 4), ([1, 2, 1], 3), ([5] * 4, 7)]
)
def test_repeats_need_a_blank_between_them(labels, needed):
    row = tf.constant([[*labels, 9, 9]], tf.int32)
    assert ctc_portable.required_frames(row, tf.constant([len(labels)])).numpy().tolist() == [
        needed
    ]


def test_labels_that_do_not_fit_name_their_rows(way):
    logits = np.zeros((3, 3, 4), np.float32)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        loss(logits, [3, 3, 1], [[1, 2], [1, 1, 2], [1, 2]])
    expected = {
        "native": "the labels need more frames than there are in batch rows 1, 2",
        "portable": "than there are:'\n1, 2",
    }
    assert expected[way] in str(error.value)


@pytest.mark.usefixtures("native_operations")
def test_no_second_derivative_of_the_native_op():
    x = tf.zeros([1, 3, 4])
    with pytest.raises(LookupError, match="can be differentiated once only"):  # noqa: PT012
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                total = tf.reduce_sum(loss(x, [3], [[1, 2]]))
            gradient = inner.gradient(total, x)
        outer.gradient(gradient, x)


@pytest.mark.parametrize("time_major", [False, True])
def test_the_native_op_takes_both_layouts_any_blank_and_tolerates_on_demand(
    native_operations, time_major
):
    generator = np.random.default_rng(5)
    logits = generator.normal(size=(3, 6, 5)).astype(np.float32)
    lengths = tf.constant([6, 2, 0])
    labels, label_lengths = tf.constant([[0, 1], [3, 3], [0, 0]]), tf.constant([2, 2, 0])
    given = logits.transpose(1, 0, 2) if time_major else logits
    found, gradient = native_operations.ds2_ctc_loss(
        given, lengths, labels, label_lengths, time_major=time_major, blank=4, infeasible="zero"
    )
    shifted = np.roll(logits, 1, axis=2)  # the blank comes first, label 0 becomes 1
    expected = loss(shifted[:1], [6], [[1, 2]])
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)
    assert np.isinf(found[1])
    assert found[2] == 0
    gradient = gradient.numpy().transpose(1, 0, 2) if time_major else gradient.numpy()
    assert gradient[0].any()
    assert not gradient[1:].any()
