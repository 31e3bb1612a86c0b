"""Small models that can follow a stream, and something for them to hear."""

import numpy as np
from ml_collections import ConfigDict

from ds2_tf import alphabet, config
from ds2_tf.acoustic_model import AcousticModel
from ds2_tf.model import DeepSpeech2
from ds2_tf.normalization import Normalization
from tests.model_test import set_weights

RATE = 8000
MODELS = {
    "gru": {},
    "rnn without batch norm": {"cell": "rnn", "batch_norm": False},
    "lstm with dense": {"cell": "lstm", "dense_layers": 1, "dense_units": 6},
    "1D": {"conv_dims": 1, "conv_kernels": ((5, 1), (3, 1)), "conv_strides": ((2, 1), (1, 1))},
    "stride 6": {"conv_strides": ((3, 2), (2, 2)), "lookahead": 5},
    "without convolution or lookahead": {
        "conv_channels": (),
        "conv_kernels": (),
        "conv_strides": (),
        "lookahead": 0,
    },
}
FEATURES = {
    "running power": {"power_normalization": "running", "power_memory_frames": 150},
    "no power normalization": {"power_normalization": "none"},
    "adapted": {
        "power_normalization": "running",
        "adaptation_prior_frames": 20,
        "adaptation_memory_frames": 100,
    },
}


def make_model(model, features):
    shape = {
        "conv_channels": (3, 2),
        "conv_kernels": ((5, 7), (3, 5)),
        "conv_strides": ((2, 2), (1, 2)),
        "rnn_layers": 2,
        "rnn_units": 6,
        "bidirectional": False,
        "lookahead": 2,
    }
    run = config.resolve(
        ConfigDict({"features": {"sample_rate_hz": RATE, **features}, "model": {**shape, **model}})
    )
    english = alphabet.english()
    network = DeepSpeech2(run.model, run.features.num_bins, english.num_labels)
    set_weights(network)
    bins = run.features.num_bins
    statistics = Normalization(
        np.linspace(-3, -5, bins, dtype=np.float32), np.full(bins, 2, np.float32), 0.02
    )
    return AcousticModel(run, english, statistics, network)


def sound(num_samples, seed=0):
    """Noise whose level and colour change."""
    generator = np.random.default_rng(seed)
    level = np.exp(np.cumsum(generator.normal(0, 0.02, num_samples))).clip(0.01, 3)
    noise = np.convolve(generator.normal(0, 0.1, num_samples + 4), generator.normal(size=4))
    return (level * noise[4 : num_samples + 4]).astype(np.float32)
