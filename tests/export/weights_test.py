import keras
import numpy as np
import pytest
import tensorflow as tf

from ds2_tf.acoustic_model import AcousticModel
from ds2_tf.errors import UserError
from export.weights import StoredWeights


@pytest.fixture
def network(tiny_workdir):
    return AcousticModel.load(tiny_workdir).network


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_matrices_are_stored_in_the_type_and_vectors_in_float32(network, dtype):
    weights = StoredWeights(network, dtype)
    assert len(weights.variables_by_name) == len(network.weights)
    for name, variable in weights.variables_by_name.items():
        assert variable.dtype == (dtype if len(variable.shape) > 1 else "float32"), name


def test_graphs_read_the_copy(network):
    weights = StoredWeights(network)

    @tf.function
    def logits():
        with weights.used():
            batch = {"features": tf.ones([1, 9, 81]), "feature_lengths": tf.constant([9])}
            return network(batch, training=False)["logits"]

    before = logits().numpy()
    for variable in network.weights:
        variable.assign(tf.zeros_like(variable.value))
    np.testing.assert_array_equal(logits(), before)
    for variable in weights.variables_by_name.values():
        variable.assign(tf.zeros_like(variable))
    assert np.abs(logits() - before).max() > 0.1


def test_weights_too_large_for_float16_are_told():
    inputs = keras.Input((1,))
    network = keras.Model(inputs, keras.layers.Dense(1, name="output")(inputs))
    network.get_layer("output").kernel.assign([[7e4]])
    with pytest.raises(UserError) as error:
        StoredWeights(network, "float16")
    assert str(error.value) == (
        "output/kernel: holds 7e+04, which is too large for float16; export with --dtype=bfloat16"
    )
    StoredWeights(network, "bfloat16")


def test_unknown_type(network):
    with pytest.raises(ValueError, match=r"dtype must be one of .*Received: 'int4'"):
        StoredWeights(network, "int4")
