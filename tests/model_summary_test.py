import dataclasses
import json
import resource

import numpy as np
import pytest
import tensorflow as tf

from ds2_tf import model_summary
from ds2_tf.features import FeatureConfig, log_spectrogram
from ds2_tf.model import DeepSpeech2, ModelConfig
from ds2_tf.native import ops as native

# 8 kHz: windows of 160 samples at a step of 80, 81 bins, 100 frames a second.
FEATURES = FeatureConfig(sample_rate_hz=8000, power_normalization="none")
BIDIRECTIONAL = ModelConfig(
    conv_channels=(3, 2),
    conv_kernels=((5, 7), (3, 5)),
    conv_strides=((2, 2), (3, 1)),
    cell="gru",
    rnn_layers=2,
    rnn_units=4,
    dense_layers=1,
    dense_units=6,
)
FORWARD = ModelConfig(
    conv_dims=1,
    conv_channels=(5, 3),
    conv_kernels=((7, 1), (3, 1)),
    conv_strides=((2, 1), (1, 1)),
    cell="rnn",
    rnn_layers=1,
    rnn_units=4,
    bidirectional=False,
    lookahead=3,
    batch_norm=False,
)


@pytest.fixture(scope="module")
def bidirectional():
    return model_summary.summarize(BIDIRECTIONAL, FEATURES, num_labels=7)


@pytest.fixture(scope="module")
def forward():
    return model_summary.summarize(FORWARD, FEATURES, num_labels=7)


def test_a_bidirectional_model_counted_by_hand(bidirectional):
    summary = bidirectional
    # 81 bins become 41 of 3 channels, then 41 of 2: 82 values a frame. 100 frames become 50, 16.7.
    rate = 100 / 6
    expected = [
        ("conv_0", "SequenceConv2D", ("B", "T/2", 41, 3), 5 * 7 * 3 + 6, 2 * 5 * 7 * 3 * 41 * 50),
        (
            "conv_1",
            "SequenceConv2D",
            ("B", "T/6", 41, 2),
            3 * 5 * 3 * 2 + 4,
            2 * 3 * 5 * 3 * 2 * 41 * rate,
        ),
        # W for three gates, U for three gates in two directions, gamma and beta.
        (
            "recurrent_0",
            "Recurrent",
            ("B", "T/6", 4),
            82 * 12 + 2 * 4 * 12 + 24,
            2 * (82 * 12 + 2 * 4 * 12) * rate,
        ),
        (
            "recurrent_1",
            "Recurrent",
            ("B", "T/6", 4),
            4 * 12 + 2 * 4 * 12 + 24,
            2 * (4 * 12 + 2 * 4 * 12) * rate,
        ),
        ("dense_0", "SequenceDense", ("B", "T/6", 6), 4 * 6 + 12, 2 * 4 * 6 * rate),
        ("output", "SequenceDense", ("B", "T/6", 7), 6 * 7 + 7, 2 * 6 * 7 * rate),
    ]
    for layer, (name, kind, shape, parameters, flops) in zip(summary.layers, expected, strict=True):
        assert (layer.name, layer.kind, layer.output_shape) == (name, kind, shape)
        assert layer.parameters == parameters, name
        assert layer.flops_per_audio_second == pytest.approx(flops), name
    assert summary.parameters == sum(row[3] for row in expected)
    assert summary.flops_per_audio_second == pytest.approx(sum(row[4] for row in expected))
    assert summary.frames_per_second == pytest.approx(rate)
    assert summary.lookahead_ms is None


def test_a_forward_model_counted_by_hand(forward):
    summary = forward
    parameters = [7 * 81 * 5 + 5, 3 * 5 * 3 + 3, 3 * 4 + 4 * 4 + 4, 4 * 4 + 4, 4 * 7 + 7]
    products = [7 * 81 * 5, 3 * 5 * 3, 3 * 4 + 4 * 4, 4 * 4, 4 * 7]
    assert [layer.kind for layer in summary.layers[2:]] == ["Recurrent", "RowConv", "SequenceDense"]
    assert [layer.parameters for layer in summary.layers] == parameters
    assert [layer.flops_per_audio_second for layer in summary.layers] == [
        2 * 50 * count for count in products
    ]
    # 3 frames of the first convolution, 1 of the second and 3 of the row convolution at a stride
    # of 2: 11 frames of 10 ms, and the last one's window of 20 ms.
    assert summary.lookahead_ms == 3 * 10 + 2 * 10 + 3 * 2 * 10 + 20 == 130


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"lookahead": 0},
        {"conv_strides": ((1, 1), (3, 1))},
        {"conv_channels": (), "conv_kernels": (), "conv_strides": ()},
    ],
)
def test_the_lookahead_is_what_the_network_depends_on(changes):
    settings = {**vars(FORWARD), **changes}
    shape = ModelConfig(**settings)
    network = DeepSpeech2(shape, FEATURES.num_bins, 7)
    generator = np.random.default_rng(5)
    for weight in network.weights:  # Means of positive values: no ReLU is at its ends.
        weight.assign(generator.uniform(0, 1, weight.shape) / np.prod(weight.shape[:-1]))
    summary = model_summary.summarize(shape, FEATURES, 7)
    needed = round(summary.lookahead_ms * FEATURES.sample_rate_hz / 1000)
    length = 80 * 60
    waveform = generator.normal(0, 0.1, (1, length)).astype(np.float32)

    def logits(samples):
        features, lengths = log_spectrogram(FEATURES, samples, tf.constant([length]))
        batch = {"features": features + 10, "feature_lengths": lengths}
        with native.portable():  # Fourier transforms would round all frames of a tile.
            return network(batch)["logits"][0].numpy()

    reference = logits(waveform)
    for frame in (2, 5):
        end = frame * shape.time_stride * FEATURES.step + needed
        heard, unheard = waveform.copy(), waveform.copy()
        heard[:, end - 20 : end] += 1.0
        unheard[:, end:] += 1.0
        assert np.abs(logits(heard) - reference)[frame].max() > 0
        assert np.abs(logits(unheard) - reference)[frame].max() == 0


def test_a_hundred_million_parameters_take_no_memory():
    shape = ModelConfig(rnn_layers=1, rnn_units=5000, cell="rnn")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    summary = model_summary.summarize(shape, FeatureConfig(), 6000)
    assert summary.parameters > 86e6
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown_mib < 200


def test_the_table_says_the_same_numbers(forward):
    lines = model_summary.table(forward).splitlines()
    assert lines[0].split() == ["layer", "kind", "output", "parameters", "FLOPs/s"]
    assert lines[1].split() == [
        "conv_0",
        "SequenceConv2D",
        "[B,",
        "T/2,",
        "1,",
        "5]",
        "2,840",
        "283,500",
    ]
    assert lines[5].split() == ["output", "SequenceDense", "[B,", "T/2,", "7]", "35", "2,800"]
    assert lines[6].split() == ["total", "2,975", "295,200"]
    assert lines[9:] == ["output: 50 frames a second, 7 labels", "look-ahead: 130 ms"]


def test_the_table_tells_what_hears_the_whole_utterance(forward, bidirectional):
    assert model_summary.table(bidirectional).endswith("look-ahead: whole utterance\n")
    normalized = dataclasses.replace(forward, power_normalization="utterance")
    assert model_summary.table(normalized).endswith(
        "look-ahead: 130 ms\n"
        "  (the network's; features.power_normalization hears the whole utterance)\n"
    )


def test_json_holds_the_same_numbers(bidirectional, tmp_path):
    summary = bidirectional
    summary.save_json(tmp_path / "summary.json")
    content = json.loads((tmp_path / "summary.json").read_text())
    assert content["parameters"] == summary.parameters
    assert content["flops_per_audio_second"] == summary.flops_per_audio_second
    assert content["frames_per_second"] == summary.frames_per_second
    assert content["lookahead_ms"] is None
    assert content["num_labels"] == 7
    assert [layer["parameters"] for layer in content["layers"]] == [
        layer.parameters for layer in summary.layers
    ]
    assert content["layers"][0]["output_shape"] == ["B", "T/2", 41, 3]
