import re

import keras
import numpy as np
import pytest

from ds2_tf import optimizer
from ds2_tf.model import DeepSpeech2, ModelConfig
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


def adam(weight_decay=0.0):
    """Kingma and Ba 2015, section 2: moments with bias correction, in float64.

    The decay is decoupled, as in Loshchilov and Hutter 2019, algorithm 2: it is no part of the
    gradient, and so not divided by its size.
    """
    weights, first, second = START.copy(), np.zeros(3), np.zeros(3)
    for t, (gradient, rate) in enumerate(zip(GRADIENTS, RATES, strict=True), start=1):
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        corrected = rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        step = corrected * first / (np.sqrt(second) + 1e-7)
        weights = weights - rate * weight_decay * weights - step
        yield weights


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (OptimizerConfig("sgd", momentum=0.9), nesterov(0.9)),
        (OptimizerConfig("sgd", momentum=0.0), nesterov(0.0)),
        (OptimizerConfig("sgd"), nesterov(0.99)),
        (OptimizerConfig("adam"), adam()),
        (OptimizerConfig("adamw", weight_decay=0.5), adam(0.5)),
        (OptimizerConfig("adamw"), adam(0.01)),
        (OptimizerConfig("adamw", weight_decay=0.0), adam()),
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


def test_the_weight_decay_is_of_adamw_alone():
    for name in ("sgd", "adam"):
        assert optimizer.make(OptimizerConfig(name, weight_decay=0.5)).weight_decay is None


@pytest.mark.parametrize(
    "settings",
    [
        {"dense_layers": 1},
        {"bidirectional": False, "lookahead": 2, "cell": "lstm"},
        {"batch_norm": False, "dense_layers": 1},
        {"batch_norm": False, "bidirectional": False, "lookahead": 2},
    ],
)
def test_all_kernels_of_the_network_decay_and_nothing_else(settings):
    """Adam moves nothing by gradients of zero: what moves has decayed."""
    shape = {"conv_channels": (2,), "conv_kernels": ((3, 3),), "conv_strides": ((2, 2),)}
    config = ModelConfig(**shape, rnn_layers=1, rnn_units=3, dense_units=4, **settings)
    network = DeepSpeech2(config, num_bins=5, num_labels=4)
    update = optimizer.make(OptimizerConfig("adamw", weight_decay=0.5))
    update.build(network.trainable_variables)
    update.learning_rate.assign(0.1)
    for variable in network.trainable_variables:
        variable.assign(keras.ops.ones(variable.shape))
    zeros = [keras.ops.zeros(variable.shape) for variable in network.trainable_variables]
    update.apply(zeros, network.trainable_variables)
    last_names = set()
    for variable in network.trainable_variables:
        last_name = variable.path.split("/")[-1]
        expected = 0.95 if last_name in ("kernel", "recurrent_kernel") else 1.0
        np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-6, err_msg=variable.path)
        last_names.add(last_name)
    normalised = set() if "batch_norm" in settings else {"beta", "gamma"}
    assert last_names == {"kernel", "recurrent_kernel", "bias"} | normalised


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_a_rate_that_was_not_set_moves_nothing(name):
    variable = keras.Variable(START.astype(np.float32))
    update = optimizer.make(OptimizerConfig(name))
    update.build([variable])
    update.apply([keras.ops.ones(3)], [variable])
    np.testing.assert_array_equal(variable.numpy(), START)


def test_keras_itself_clips_nothing():
    """The training loop clips, after the sum over the replicas."""
    for name in ("sgd", "adam", "adamw"):
        update = optimizer.make(OptimizerConfig(name, clip_norm=1e-3))
        assert (update.clipnorm, update.global_clipnorm, update.clipvalue) == (None, None, None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"name": "adagrad"},
            "optimizer name must be one of ('sgd', 'adam', 'adamw'). Received: 'adagrad'",
        ),
        ({"weight_decay": -0.1}, "weight_decay must be >= 0. Received: -0.1"),
        ({"clip_norm": 0.0}, "clip_norm must be > 0. Received: 0.0"),
        ({"momentum": 1.0}, "momentum must lie in [0, 1). Received: 1.0"),
        ({"momentum": -0.1}, "momentum must lie in [0, 1). Received: -0.1"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        OptimizerConfig(**settings)
