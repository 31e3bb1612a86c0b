import numpy as np
import pytest
import tensorflow as tf

from export.folding import without_batch_norm
from tests.streaming_models import FEATURES, MODELS, make_model, sound


@pytest.mark.parametrize("name", ["lstm with dense", "1D"])
def test_computes_the_same(name):
    model = make_model(MODELS[name], FEATURES["running power"])
    folded = without_batch_norm(model)
    assert not [weight.path for weight in folded.network.weights if "/bn/" in weight.path]
    samples = sound(4000)[np.newaxis], tf.constant([4000])
    expected, _ = model.log_probabilities(*samples)
    found, _ = folded.log_probabilities(*samples)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.ptp(expected) > 1


def test_leaves_the_model_alone():
    model = make_model({}, FEATURES["running power"])
    before = [weight.numpy() for weight in model.network.weights]
    without_batch_norm(model)
    for weight, value in zip(model.network.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)
