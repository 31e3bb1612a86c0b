import keras
import numpy as np
import pytest
import tensorflow as tf

from ds2_tf import freezing
from ds2_tf.errors import UserError
from ds2_tf.layers.batch_norm import SequenceBatchNorm
from ds2_tf.model import DeepSpeech2, ModelConfig

CONFIG = ModelConfig(
    conv_channels=(2, 2),
    conv_kernels=((3, 3), (3, 3)),
    conv_strides=((2, 2), (1, 2)),
    rnn_layers=2,
    rnn_units=3,
    dense_layers=1,
    dense_units=4,
)
LAYERS = ["conv_0", "conv_1", "recurrent_0", "recurrent_1", "dense_0", "output"]
BATCH = {
    "features": tf.constant(np.random.default_rng(0).normal(size=(2, 12, 9)), tf.float32),
    "feature_lengths": tf.constant([12, 7]),
}


def make():
    keras.utils.set_random_seed(0)
    return DeepSpeech2(CONFIG, num_bins=9, num_labels=5)


@pytest.fixture(scope="module")
def all_trainable():
    """The paths of the variables of a network of which nothing is frozen."""
    return [variable.path for variable in make().trainable_variables]


def values(network):
    """Returns the bytes of each layer's variables."""
    return {
        layer.name: [np.asarray(v).tobytes() for v in layer.variables]
        for layer in network.layers
        if layer.variables
    }


def train(network, num_steps=2):
    update = keras.optimizers.SGD(0.1)
    update.build(network.trainable_variables)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(network(BATCH, training=True)["logits"] - 1.0))
        gradients = tape.gradient(loss, network.trainable_variables)
        update.apply(gradients, network.trainable_variables)

    for _ in range(num_steps):
        step()


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (("conv_*", "recurrent_0"), LAYERS[:3]),
        (("recurrent_?", "*_1"), LAYERS[1:4]),
        (("[!o]*",), LAYERS[:-1]),
        (("output",), ["output"]),
        ((), []),
    ],
)
def test_only_frozen_layers_stay_as_they_are(all_trainable, patterns, expected):
    network = make()
    assert freezing.freeze(network, patterns) == expected
    left = {v.path for layer in network.layers if layer.name in expected for v in layer.weights}
    trainable = [v.path for v in network.trainable_variables]
    assert trainable == [path for path in all_trainable if path not in left]

    before = values(network)
    train(network)
    after = values(network)
    assert list(before) == LAYERS
    assert [name for name in LAYERS if before[name] == after[name]] == expected


def test_frozen_batch_normalisation_hears_the_same_in_training_as_afterwards():
    """Without dropout, batch normalisation alone behaves differently in training."""
    network = make()
    generator = np.random.default_rng(1)
    for variable in network.non_trainable_variables:
        variable.assign(generator.uniform(0.5, 2.0, variable.shape))
    afterwards = network(BATCH)["logits"].numpy()
    assert np.abs(network(BATCH, training=True)["logits"] - afterwards).max() > 0.01

    network = make()
    generator = np.random.default_rng(1)
    for variable in network.non_trainable_variables:
        variable.assign(generator.uniform(0.5, 2.0, variable.shape))
    freezing.freeze(network, ["[!o]*"])
    np.testing.assert_array_equal(network(BATCH, training=True)["logits"], afterwards)


def test_gradients_flow_through_frozen_batch_normalisation_as_through_a_scale():
    x = tf.constant(np.random.default_rng(0).normal(size=(2, 3, 2)), tf.float32)
    lengths = np.array([3, 1], np.int32)
    layer = SequenceBatchNorm(epsilon=0.0)
    layer.build(x.shape)
    layer.moving_variance.assign([4, 9])
    layer.gamma.assign([6, 6])
    layer.trainable = False
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x, lengths, training=True)
    expected = np.zeros((2, 3, 2), np.float32)
    expected[0] = expected[1, :1] = [3, 2]
    np.testing.assert_allclose(tape.gradient(y, x), expected, rtol=1e-6)


def test_freezing_again_changes_nothing(all_trainable):
    network = make()
    freezing.freeze(network, ["output"])
    assert freezing.freeze(network, ["out*"]) == ["output"]
    assert [v.path for v in network.trainable_variables] == all_trainable[:-2]


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (
            ["conv_0", "conv_7"],
            "cannot freeze 'conv_7': no layer has such a name; choose of " + ", ".join(LAYERS),
        ),
        (
            ["features"],  # has no weights
            "cannot freeze 'features': no layer has such a name; choose of " + ", ".join(LAYERS),
        ),
        (
            ["out*", "[!o]*"],
            "cannot freeze 'out*', '[!o]*': nothing would be left to train; leave out some of "
            + ", ".join(LAYERS),
        ),
    ],
)
def test_patterns_that_make_no_sense_are_errors_and_freeze_nothing(
    all_trainable, patterns, message
):
    network = make()
    with pytest.raises(UserError) as error:
        freezing.freeze(network, patterns)
    assert str(error.value) == message
    assert len(network.trainable_variables) == len(all_trainable)
