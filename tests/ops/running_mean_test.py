import numpy as np
import tensorflow as tf

from ds2_tf.ops import running_mean


def definition(values, mean, prior, memory):
    means = []
    for t, value in enumerate(values, start=1):
        mean = mean + (value - mean) / min(t + prior, memory)
        means.append(mean)
    return np.array(means)


def test_equals_the_definition_in_any_pieces():
    generator = np.random.default_rng(0)
    lengths = np.array([57, 0, 1, 40])
    values = generator.normal(3, 2, (4, 57, 3))
    padded = values.astype(np.float32)
    for row, length in zip(padded, lengths, strict=True):
        row[length:] = np.nan
    first = np.array([5.0, -1.0, 0.0])
    for prior, memory in ((0, 1), (0, 1000), (10, 20), (10, 1000), (50, 20)):
        state = running_mean.start(tf.constant(first, tf.float32), 4)
        found = []
        for begin, end in ((0, 0), (0, 1), (1, 20), (20, 21), (21, 57)):
            count = np.clip(lengths - begin, 0, end - begin).astype(np.int32)
            means, state = running_mean.running_mean(
                tf.constant(padded[:, begin:end]), tf.constant(count), state, prior, memory
            )
            found.append(means.numpy())
        found = np.concatenate(found, axis=1)
        for row, length in enumerate(lengths):
            expected = definition(values[row, :length], first, prior, memory)
            np.testing.assert_allclose(
                found[row, :length], expected.reshape(-1, 3), rtol=1e-5, atol=1e-5
            )
            last = expected[-1] if length else first
            np.testing.assert_allclose(state["mean"][row], last, rtol=1e-5, atol=1e-5)


def test_a_stream_without_end_does_not_overflow_its_count():
    state = running_mean.start(tf.zeros([1]), 1)
    state["count"] = tf.constant([2**31 - 2])
    _, state = running_mean.running_mean(tf.ones([1, 1, 1]), tf.constant([1]), state, 10, 100)
    assert state["count"].numpy() == 100


def test_a_loop_finds_what_a_known_number_of_frames_finds_without_one():
    values = tf.constant(np.random.default_rng(0).normal(size=(2, 40, 3)), tf.float32)
    state = running_mean.start(tf.zeros([3]), 2)
    found = []
    for num_frames in (40, None):

        @tf.function(input_signature=[tf.TensorSpec([2, num_frames, 3])])
        def compute(values):
            return running_mean.running_mean(values, tf.constant([40, 17]), state, 3, 10)[0]

        found.append(compute(values))
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
