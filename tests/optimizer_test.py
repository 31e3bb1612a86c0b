import keras
import numpy as np
import pytest

from ds2_tf import optimizer
from ds2_tf.optimizer import OptimizerConfig

START = np.array([1.0, -2.0, 3.0])
GRADIENTS = np.random.default_rng(0).normal(0, 1, (6, 3)) * np.array([1.0, 100.0, 1e-3])
RATES = [0.1, 0.1, 0.05, 0.05, 0.2, 0.2]


def nesterov(momentum):
    """Sutskever et al. 2013: look ahead along the velocity, in float64."""
    weights, velocity = START.copy(), np.zeros(3)
    for gradient, rate in zip(GRADIENTS, RATES, strict=True):
        velocity = momentum * velocity - rate * gradient
        weights = weights + momentum * velocity - rate * gradient
        yield weights


def adam():
    """Kingma and Ba 2015, section 2: moments with bias correction, in float64."""
    weights, first, second = START.copy(), np.zeros(3), np.zeros(3)
    for t, (gradient, rate) in enumerate(zip(GRADIENTS, RATES, strict=True), start=1):
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        corrected = rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        weights = weights - corrected * first / (np.sqrt(second) + 1e-7)
        yield weights


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (OptimizerConfig("sgd", momentum=0.9), nesterov(0.9)),
        (OptimizerConfig("sgd", momentum=0.0), nesterov(0.0)),
        (OptimizerConfig("sgd"), nesterov(0.99)),
        (OptimizerConfig("adam"), adam()),
    ],
)
def test_steps_follow_the_published_rule(config, expected):
    variable = keras.Variable(START.astype(np.float32))
    update = optimizer.make(config)
    update.build([variable])
    for gradient, rate, weights in zip(GRADIENTS, RATES, expected, strict=True):
        update.learning_rate.assign(rate)
        update.apply([keras.ops.convert_to_tensor(gradient, "float32")], [variable])
        np.testing.assert_allclose(variable.numpy(), weights, rtol=1e-5)


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_a_rate_that_was_not_set_moves_nothing(name):
    variable = keras.Variable(START.astype(np.float32))
    update = optimizer.make(OptimizerConfig(name))
    update.build([variable])
    update.apply([keras.ops.ones(3)], [variable])
    np.testing.assert_array_equal(variable.numpy(), START)


def test_keras_itself_clips_nothing():
    """The training loop clips, after the sum over the replicas."""
    for name in ("sgd", "adam"):
        update = optimizer.make(OptimizerConfig(name, clip_norm=1e-3))
        assert (update.clipnorm, update.global_clipnorm, update.clipvalue) == (None, None, None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "adagrad"}, "optimizer name must be 'sgd' or 'adam'. Received: 'adagrad'"),
        ({"clip_norm": 0.0}, "clip_norm must be > 0. Received: 0.0"),
        ({"momentum": 1.0}, r"momentum must lie in \[0, 1\). Received: 1.0"),
        ({"momentum": -0.1}, r"momentum must lie in \[0, 1\). Received: -0.1"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        OptimizerConfig(**settings)
