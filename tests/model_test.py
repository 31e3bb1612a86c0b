import numpy as np
import pytest
import tensorflow as tf

from ds2_tf.model import DeepSpeech2, ModelConfig
from ds2_tf.ops.ctc import ctc_loss

BINS, LABELS = 20, 7
FORWARD = {"bidirectional": False, "lookahead": 2}
CONFIGS = {
    "gru": {},
    "rnn": {"cell": "rnn"},
    "lstm": {"cell": "lstm"},
    "own input weights": {"shared_input": False},
    "1D": {"conv_dims": 1, "conv_kernels": ((5, 1), (3, 1)), "conv_strides": ((2, 1), (1, 1))},
    "forward": FORWARD,
    "dense": {"dense_layers": 1, "dense_units": 6},
    "forward without batch norm": {**FORWARD, "batch_norm": False},
    "without batch norm": {"batch_norm": False, "dense_layers": 1, "dense_units": 6},
    "without convolution": {"conv_channels": (), "conv_kernels": (), "conv_strides": ()},
}


def make_network(**settings) -> DeepSpeech2:
    small = {
        "conv_channels": (3, 2),
        "conv_kernels": ((5, 7), (3, 5)),
        "conv_strides": ((2, 2), (1, 2)),
        "rnn_layers": 2,
        "rnn_units": 6,
    }
    network = DeepSpeech2(ModelConfig(**{**small, **settings}), BINS, LABELS)
    set_weights(network)
    return network


def set_weights(network):
    generator = np.random.default_rng(3)
    for weight in network.weights:
        if "moving_variance" in weight.path:
            weight.assign(np.ones(weight.shape))
        else:
            weight.assign(generator.normal(0.3 * ("gamma" in weight.path), 0.4, weight.shape))


SIGNATURE = {
    "features": tf.TensorSpec([None, None, BINS], tf.float32),
    "feature_lengths": tf.TensorSpec([None], tf.int32),
}


def make_batch(lengths, padded_frames, padding):
    generator = np.random.default_rng(4)
    features = np.full((len(lengths), padded_frames, BINS), padding, np.float32)
    for row, length in zip(features, lengths, strict=True):
        row[:length] = generator.normal(size=(length, BINS))
    return {"features": features, "feature_lengths": np.array(lengths, np.int32)}


@pytest.mark.parametrize("name", CONFIGS)
def test_batch_of_16_with_nan_in_the_padding_equals_batches_of_1(name):
    network = tf.function(make_network(**CONFIGS[name]).call, input_signature=[SIGNATURE])
    lengths = [31, 1, 0, 17, 8, 9, 2, 3, 40, 25, 12, 40, 33, 5, 6, 7]
    batch = make_batch(lengths, 40, np.nan)
    together = network(batch)
    tolerance = 1e-5 * np.abs(together["logits"]).max()
    for i, length in enumerate(lengths):
        row = {
            "features": batch["features"][i : i + 1, :length],
            "feature_lengths": batch["feature_lengths"][i : i + 1],
        }
        if length == 0:
            assert together["logit_lengths"][i] == 0
            continue
        alone = network(row)
        count = int(alone["logit_lengths"][0])
        assert together["logit_lengths"][i] == count
        np.testing.assert_allclose(
            together["logits"][i, :count], alone["logits"][0, :count], atol=tolerance
        )


@pytest.mark.parametrize("name", CONFIGS)
def test_padding_changes_nothing_in_training(name):
    lengths = [21, 9, 16]
    labels = np.array([[1, 2, 2, 3], [4, 1, 0, 0], [0, 0, 0, 0]], np.int32)
    label_lengths = np.array([4, 2, 0], np.int32)
    network = make_network(**CONFIGS[name])

    @tf.function(input_signature=[SIGNATURE])
    def differentiate(batch):
        with tf.GradientTape() as tape:
            outputs = network(batch, training=True)
            losses = ctc_loss(outputs["logits"], outputs["logit_lengths"], labels, label_lengths)
            loss = tf.reduce_sum(losses)
        return losses, tape.gradient(loss, network.trainable_variables)

    results = []
    for padded_frames, padding in ((21, 0.0), (21, np.nan), (34, 1e6)):
        set_weights(network)
        losses, gradients = differentiate(make_batch(lengths, padded_frames, padding))
        statistics = [weight.numpy() for weight in network.non_trainable_weights]
        results.append([losses.numpy(), *(g.numpy() for g in gradients), *statistics])
    names = ["loss", *(v.path for v in network.trainable_variables)]
    names += [v.path for v in network.non_trainable_weights]
    for other in results[1:]:
        for what, ours, theirs in zip(names, results[0], other, strict=True):
            scale = np.abs(ours).max() + 1e-6
            np.testing.assert_allclose(ours / scale, theirs / scale, atol=2e-5, err_msg=what)


def test_dropout_drops_the_same_units_in_all_frames_and_only_in_training():
    network = make_network(dropout=0.5, rnn_layers=1)
    batch = make_batch([20, 20], 20, 0.0)
    before_output = tf.keras.Model(network.inputs, network.get_layer("output").input[0])
    kept = before_output(batch, training=False).numpy()
    dropped = before_output(batch, training=True).numpy()
    zero_in_all_frames = (dropped == 0).all(axis=1)
    assert zero_in_all_frames.any()
    assert not (kept == 0).all(axis=1)[zero_in_all_frames].all()


def test_a_forward_only_model_hears_no_further_than_its_lookahead():
    network = make_network(**FORWARD)
    batch = make_batch([40], 40, 0.0)
    changed = make_batch([40], 40, 0.0)
    changed["features"][0, 30:] += 1
    difference = np.abs(network(batch)["logits"] - network(changed)["logits"])[0].max(-1)
    # One output frame hears 2 frames of row convolution, and 1 and 2 of the two convolutions.
    first = (30 - 2) // 2 - 1 - FORWARD["lookahead"]
    # Not 0: a Fourier transform rounds all frames of a tile.
    assert difference[: first - 1].max() < 1e-6
    assert difference[first + 2 :].min() > 0


def test_output_frames_follow_the_strides():
    config = ModelConfig(conv_strides=((2, 2), (3, 2)))
    assert config.time_stride == 6
    assert [config.num_output_frames(t) for t in (0, 1, 6, 7, 12, 13)] == [0, 1, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"conv_channels": (32,)}, r"must be equally long. Received: 1, 2, 2"),
        ({"conv_strides": ((13, 2), (1, 2))}, "would leave out frames or bins. Received: "),
        ({"rnn_layers": 0}, r"rnn_layers must be >= 1. Received: 0"),
        ({"dropout": 1.0}, r"dropout must lie in \[0, 1\). Received: 1.0"),
        ({"lookahead": 3}, r"Received: lookahead=3, bidirectional=True"),
    ],
)
def test_contradictions_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        ModelConfig(**settings)
