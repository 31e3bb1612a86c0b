"""Recordings from which a quantizer learns the ranges of the activations."""

import os

import numpy as np

from ds2_tf import audio, manifest

# More hardly widen the ranges.
MAX_UTTERANCES = 100


def load(manifest_path: str | os.PathLike, sample_rate_hz: int) -> list[np.ndarray]:
    """Returns the waveforms [S] float32 of at most `MAX_UTTERANCES`, evenly spread.

    Raises:
      UserError: when the manifest or a recording cannot be read.
    """
    utterances = manifest.read(manifest_path)
    chosen = np.linspace(0, len(utterances) - 1, min(len(utterances), MAX_UTTERANCES)).round()
    return [audio.load_utterance(utterances[int(i)], sample_rate_hz) for i in chosen]
