import keras
import numpy as np
import pytest
import tensorflow as tf

from ds2_tf.layers import recomputation
from ds2_tf.layers.batch_norm import collected_statistics
from ds2_tf.layers.block import Block
from ds2_tf.layers.conv import SequenceConv2D
from ds2_tf.layers.dense import SequenceDense
from ds2_tf.layers.recomputation import recomputed_activations
from ds2_tf.layers.recurrent import Recurrent

LENGTHS = np.array([6, 3, 0], np.int32)
LAYERS = {
    "dense": (lambda: Block(SequenceDense(4), batch_norm_momentum=0.9), (3, 6, 5)),
    "without batch norm": (lambda: Block(SequenceDense(4, True), False), (3, 6, 5)),
    "conv": (lambda: Block(SequenceConv2D(2, (3, 3), (2, 1))), (3, 6, 4, 2)),
    "gru": (lambda: Recurrent(3, "gru", batch_norm_momentum=0.9), (3, 6, 5)),
    "lstm": (lambda: Recurrent(3, "lstm", False, batch_norm=False), (3, 6, 5)),
}


def run(name, recompute, as_graph):
    """Returns output, gradients and running averages of a training step of a layer."""
    keras.utils.set_random_seed(1)
    make, shape = LAYERS[name]
    layer = make()
    layer.build(shape)
    x = tf.constant(np.random.default_rng(0).normal(size=shape), tf.float32)

    def step():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, LENGTHS, training=True)
            y = y[0] if isinstance(y, tuple) else y
            loss = tf.reduce_sum(tf.sin(y))
        weights = [weight.value for weight in layer.trainable_weights]
        return y, tape.gradient(loss, [x, *weights])

    if as_graph:
        step = tf.function(step)
    if recompute:
        with recomputed_activations():
            y, gradients = step()
    else:
        y, gradients = step()
    return y, gradients, [weight.numpy() for weight in layer.non_trainable_weights]


@pytest.mark.parametrize("as_graph", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_give_the_same_values_gradients_and_averages(name, as_graph):
    y, gradients, averages = run(name, False, as_graph)
    again, gradients_again, averages_again = run(name, True, as_graph)
    np.testing.assert_allclose(again, y, rtol=1e-6, atol=1e-7)
    assert len(gradients) == len(gradients_again) >= 2
    for a, b in zip(gradients, gradients_again, strict=True):
        assert np.abs(a).max() > 1e-3
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)
    # Were they moved by the second computation, too, they would be off by nearly a factor of 2.
    for a, b in zip(averages, averages_again, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-7)


class Counted:
    """y = w sin(x), and how often it was computed."""

    def __init__(self):
        self.w = tf.Variable([2.0, -3.0])
        self.times = 0

    def __call__(self, x):
        self.times += 1
        return self.w * tf.sin(x)


def test_within_it_everything_is_computed_a_second_time_for_the_gradient():
    x = tf.constant([0.5, 1.5])
    for recompute, times in ((False, 1), (True, 2), (False, 1)):
        function = Counted()
        with tf.GradientTape() as tape:
            tape.watch(x)
            if recompute:
                with recomputed_activations():
                    y = recomputation.apply(function, x)
            else:
                y = recomputation.apply(function, x)
        assert function.times == 1
        by_x, by_w = tape.gradient(y, [x, function.w], tf.constant([1.0, 10.0]))
        assert function.times == times
        np.testing.assert_allclose(by_x, [2 * np.cos(0.5), -30 * np.cos(1.5)], rtol=1e-6)
        np.testing.assert_allclose(by_w, [np.sin(0.5), 10 * np.sin(1.5)], rtol=1e-6)


def test_without_a_gradient_nothing_is_computed_twice():
    function = Counted()
    with recomputed_activations():
        y = recomputation.apply(function, tf.constant([0.5, 1.5]))
    np.testing.assert_allclose(y, [2 * np.sin(0.5), -3 * np.sin(1.5)], rtol=1e-6)
    assert function.times == 1


def test_without_the_context_the_function_is_called_as_it_is():
    """No custom gradient stands between: second derivatives are there, too."""
    x = tf.constant(0.5)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = recomputation.apply(tf.sin, x)
        slope = inner.gradient(y, x)
    assert float(outer.gradient(slope, x)) == pytest.approx(-np.sin(0.5))
    marker = object()
    assert recomputation.apply(lambda x: marker, x) is marker


def test_a_function_without_variables():
    x = tf.constant([1.0, 2.0])
    with recomputed_activations(), tf.GradientTape() as tape:
        tape.watch(x)
        y = recomputation.apply(tf.square, x)
    np.testing.assert_allclose(tape.gradient(y, x), [2.0, 4.0])


@pytest.mark.parametrize("as_graph", [False, True])
def test_one_within_the_other(as_graph):
    inner, outer = tf.Variable(2.0), tf.Variable(3.0)
    x = tf.constant(0.5)

    def both(x):
        return outer * tf.sin(recomputation.apply(lambda x: inner * x * x, x))

    def gradients():
        with recomputed_activations(), tf.GradientTape() as tape:
            tape.watch(x)
            y = recomputation.apply(both, x)
            found = tape.gradient(y, [x, inner, outer])
        return y, found

    y, (by_x, by_inner, by_outer) = (tf.function(gradients) if as_graph else gradients)()
    assert float(y) == pytest.approx(3 * np.sin(0.5))
    assert float(by_x) == pytest.approx(3 * np.cos(0.5) * 2 * 2 * 0.5)
    assert float(by_inner) == pytest.approx(3 * np.cos(0.5) * 0.25)
    assert float(by_outer) == pytest.approx(np.sin(0.5))


def is_recomputed():
    function = Counted()
    with tf.GradientTape() as tape:
        y = recomputation.apply(function, tf.constant([0.5, 1.5]))
    tape.gradient(y, function.w)
    return function.times == 2


def test_the_context_ends_with_its_block():
    assert not is_recomputed()
    with recomputed_activations():
        with recomputed_activations():
            assert is_recomputed()
        assert is_recomputed()
    assert not is_recomputed()
    with pytest.raises(KeyError), recomputed_activations():
        raise KeyError
    assert not is_recomputed()


@pytest.mark.parametrize("recompute", [False, True])
def test_statistics_are_collected_once(recompute):
    layer = Block(SequenceDense(4))
    layer.build((3, 6, 5))
    x = tf.constant(np.random.default_rng(0).normal(size=(3, 6, 5)), tf.float32)

    def step():
        with collected_statistics() as found:
            with tf.GradientTape() as tape:
                y, _ = layer(x, LENGTHS, training=True)
            tape.gradient(y, [weight.value for weight in layer.trainable_weights])
        return found

    if recompute:
        with recomputed_activations():
            found = step()
    else:
        found = step()
    assert [statistics.layer for statistics in found] == [layer.batch_norm]
    assert not np.asarray(layer.batch_norm.moving_mean.value).any()
