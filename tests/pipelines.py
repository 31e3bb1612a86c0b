"""Input pipelines for tests, of tones and of spoken digits."""

import numpy as np
import soundfile
import tensorflow as tf

from ds2_tf import alphabet, features
from ds2_tf.augment import AugmentConfig
from ds2_tf.batching import BatchConfig
from ds2_tf.input_pipeline import BATCH_SIGNATURE, InputPipeline
from ds2_tf.model import ModelConfig
from ds2_tf.normalization import Normalization

RATE = 8000
ENGLISH = alphabet.english()
FEATURES = features.FeatureConfig(RATE, log_floor=1e-3)
MODEL = ModelConfig(
    conv_channels=(2,), conv_kernels=((5, 7),), conv_strides=((2, 2),), rnn_layers=1, rnn_units=4
)
NORMALIZATION = Normalization(
    np.linspace(-5, -3, 81).astype(np.float32), np.linspace(1, 2, 81).astype(np.float32)
)
EVERYTHING = AugmentConfig(speed=(0.8, 1.25), channel_db=6.0, noise_share=0.6)
BATCH_SIZE = 8


def make(utterances, symbols=ENGLISH, **options):
    options.setdefault("batch_config", BatchConfig(BATCH_SIZE, num_buckets=2))
    return InputPipeline(utterances, symbols, FEATURES, MODEL, NORMALIZATION, **options)


def read(pipeline, epoch=0, skip_batches=0):
    return list(pipeline.epoch(epoch, skip_batches).dataset.as_numpy_iterator())


def features_alone(samples):
    spectrogram, length = features.log_spectrogram(
        FEATURES, samples[np.newaxis], tf.constant([len(samples)])
    )
    return NORMALIZATION(spectrogram, length)[0].numpy()


def assert_same_features(found, expected):
    """Rounding shows most in the bins just above the floor, far below the loudest of the frame."""
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.mean(np.abs(found - expected)) < 1e-6


def rows(batches):
    """Yields (index, features, feature_length, labels, label_length) of every row."""
    for batch in batches:
        yield from zip(*(batch[key] for key in BATCH_SIGNATURE), strict=True)


def write_tone(path, seconds):
    samples = 0.3 * np.sin(2 * np.pi * 500 * np.arange(round(seconds * RATE)) / RATE)
    soundfile.write(path, samples, RATE)
    return str(path)
