"""Runs with a small corpus, for tests of the preparation of data."""

import dataclasses

import soundfile
from ml_collections import ConfigDict

from ds2_tf import config, data_preparation, manifest
from tests.manifest_rows import speech

RATE = 8000


def settings(**sections):
    base = {
        "features": {"sample_rate_hz": RATE},
        "model": {
            "conv_channels": (2,),
            "conv_kernels": ((3, 3),),
            "conv_strides": ((2, 2),),
        },
    }
    for name, values in sections.items():
        base[name] = base.get(name, {}) | values
    return config.resolve(ConfigDict(base))


class Corpus:
    """A manifest "name.jsonl" with recordings of half a second and more."""

    def __init__(self, folder, name, count, seed):
        self.path = folder / f"{name}.jsonl"
        rows = []
        for i in range(count):
            path = folder / f"{name}{i}.wav"
            seconds = 0.5 + 0.1 * i
            soundfile.write(path, speech(seconds, RATE, seed + i), RATE)
            rows.append(manifest.Utterance((str(path),), seconds, "ab c"))
        manifest.write(self.path, rows)

    def read(self):
        return manifest.read(self.path)

    def replace(self, index, **values):
        """Changes one row."""
        rows = self.read()
        rows[index] = dataclasses.replace(rows[index], **values)
        manifest.write(self.path, rows)


def prepare(run, workdir, train, dev):
    started = (workdir / "config.json").exists()  # as if a step had been done, too
    data_preparation.prepare(run, workdir, train.read(), dev.read(), started)
    return data_preparation.load(workdir)


def noise_manifest(folder, name="noise"):
    return Corpus(folder, name, 2, seed=50).path
