"""A stand-in for an acoustic model whose audio can be written as text.

A symbol with label k sounds as the constant level k / 100; silence is the blank. So any text can be
made audible, and what a perfect recogniser would hear of it is known.
"""

import types

import numpy as np
import soundfile
import tensorflow as tf

from ds2_tf import alphabet, features

SAMPLE_RATE_HZ = 8000
ENGLISH = alphabet.english()
_SYMBOL_SECONDS = 0.09
_GAP_SECONDS = 0.03


class ToneModel:
    """Has the attributes of `AcousticModel`; hears a symbol in the middle sample of each frame."""

    streams_exactly = False

    def __init__(self, symbols=ENGLISH, seconds_per_frame=0.02):
        self.alphabet = symbols
        self.feature_config = features.FeatureConfig(sample_rate_hz=SAMPLE_RATE_HZ)
        self.sample_rate_hz = SAMPLE_RATE_HZ
        self.seconds_per_frame = seconds_per_frame
        self.config = types.SimpleNamespace(features=self.feature_config)
        self.batch_shapes = []

    def log_probabilities(self, waveforms, lengths):
        self.batch_shapes.append(tuple(waveforms.shape))
        frame = round(self.seconds_per_frame * SAMPLE_RATE_HZ)
        num_frames = waveforms.shape[1] // frame
        middles = frame // 2 + frame * np.arange(num_frames)
        labels = np.rint(100 * waveforms.numpy()[:, middles]).astype(int)
        logits = np.where(labels[..., np.newaxis] == np.arange(self.alphabet.num_labels), 5.0, 0.0)
        log_probs = tf.nn.log_softmax(logits.astype(np.float32))
        return log_probs, tf.constant(lengths.numpy() // frame, tf.int32)


class ToneStream:
    """A stand-in for `StreamingModel` with the hearing of `ToneModel`; one stream."""

    def __init__(self, symbols=ENGLISH):
        self.model = ToneModel(symbols)

    def start(self, batch_size):
        assert batch_size == 1
        return {"samples": tf.zeros([1, 0])}

    def step(self, samples, lengths, final, state):
        held = tf.concat([state["samples"], samples[:, : lengths[0]]], axis=1)
        log_probs, counts = self.model.log_probabilities(held, tf.shape(held)[1:])
        used = int(counts[0]) * round(self.model.seconds_per_frame * SAMPLE_RATE_HZ)
        return log_probs, counts, {"samples": held[:, used:]}


def speak(text, symbols=ENGLISH, lead_seconds=0.0):
    """Returns the samples [S] that `ToneModel` hears as the text, after some silence."""
    symbol = np.ones(round(_SYMBOL_SECONDS * SAMPLE_RATE_HZ), np.float32)
    gap = np.zeros(round(_GAP_SECONDS * SAMPLE_RATE_HZ), np.float32)
    pieces = [np.zeros(round(lead_seconds * SAMPLE_RATE_HZ), np.float32)]
    for character in text:
        label = symbols.symbols.index(character) + 1
        pieces += [symbol * (label / 100), gap]
    return np.concatenate(pieces)


def write(path, samples):
    """Writes a 16-bit wav file and returns its path as a string."""
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, SAMPLE_RATE_HZ, subtype="PCM_16")
    return str(path)
