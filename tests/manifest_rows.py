"""Builds manifests with their recordings, for the tests of the data check."""

import pathlib

import numpy as np
import soundfile

from ds2_tf import alphabet as alphabets
from ds2_tf import data_check
from ds2_tf.features import FeatureConfig
from ds2_tf.manifest import Utterance

RATE = 16000
ENGLISH = alphabets.english()


def speech(seconds: float, rate: int = RATE, seed: int = 0, level: float = 0.1) -> np.ndarray:
    """Noise that swells and fades four times a second."""
    time = np.arange(round(seconds * rate)) / rate
    samples = (
        np.random.default_rng(seed).normal(0, level, len(time)) * np.sin(4 * np.pi * time) ** 2
    )
    return samples.clip(-1, 1)


class Rows:
    """Builds the rows of a manifest "m.jsonl" and their files."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.utterances: list[Utterance] = []

    def add(self, samples, text="some words", duration=None, rate=RATE, name=None, **options):
        path = self.folder / (name or f"{len(self.utterances)}.wav")
        soundfile.write(path, samples, rate, **options)
        return self.add_file(path, text, len(samples) / rate if duration is None else duration)

    def add_file(self, path, text="some words", duration=1.0, pauses=()):
        paths = path if isinstance(path, tuple) else (path,)
        self.utterances.append(
            Utterance(
                tuple(map(str, paths)),
                duration,
                text,
                pauses,
                line=len(self.utterances) + 1,
                manifest="m.jsonl",
            )
        )
        return self.utterances[-1]

    def check(self, alphabet=ENGLISH, features=None, stride=2, allow=()):
        features = features or FeatureConfig(RATE)
        return data_check.check(self.utterances, alphabet, features, stride, allow, progress=False)

    def reasons(self, **options) -> list[tuple[int, str]]:
        return [(f.row + 1, f.reason) for f in self.check(**options)]
