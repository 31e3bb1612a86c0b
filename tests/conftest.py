"""Fixtures that several tests share."""

import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from ml_collections import ConfigDict

from ds2_tf import alphabet, checkpoint, config, manifest, normalization
from ds2_tf.acoustic_model import BEST_WEIGHTS, AcousticModel
from ds2_tf.manifest import Utterance
from ds2_tf.model import DeepSpeech2
from ds2_tf.native import build
from ds2_tf.native import ops as native
from export import saved_model
from tests.pipelines import write_tone
from tests.prepared_runs import Corpus

TINY = {
    "features": {"sample_rate_hz": 8000},
    "model": {
        "conv_channels": (4, 4),
        "conv_kernels": ((5, 7), (3, 5)),
        "conv_strides": ((2, 2), (1, 2)),
        "cell": "gru",
        "rnn_layers": 2,
        "rnn_units": 16,
    },
}


STREAMING = {
    "features": {"sample_rate_hz": 8000, "power_normalization": "running"},
    "model": {**TINY["model"], "bidirectional": False, "lookahead": 3},
}


@pytest.fixture(scope="session")
def tiny_workdir(tmp_path_factory) -> pathlib.Path:
    """A finished run's folder with a tiny model of random weights: 8 kHz, English characters."""
    return write_workdir(tmp_path_factory.mktemp("tiny_workdir"), TINY)


@pytest.fixture(scope="session")
def streaming_workdir(tmp_path_factory) -> pathlib.Path:
    """The same with a forward-only model, which can follow a stream."""
    # With smaller weights one direction alone writes the same two letters whatever it hears.
    return write_workdir(tmp_path_factory.mktemp("streaming_workdir"), STREAMING, recurrent_gain=2)


@pytest.fixture(scope="session")
def streaming_export(streaming_workdir, tmp_path_factory) -> pathlib.Path:
    """The SavedModel of the forward-only model."""
    output = tmp_path_factory.mktemp("streaming_export") / "1"
    saved_model.export(AcousticModel.load(streaming_workdir), output)
    return output


def write_workdir(folder, settings, recurrent_gain=1) -> pathlib.Path:
    """Makes a workdir of random weights that write texts."""
    run = config.resolve(ConfigDict(settings))
    english = alphabet.english()
    keras.utils.set_random_seed(1)
    network = DeepSpeech2(run.model, run.features.num_bins, english.num_labels)
    generator = np.random.default_rng(1)
    variables = checkpoint.model_arrays(network)
    for name, variable in variables.items():
        if name.endswith("moving_mean"):
            variable.assign(generator.normal(0, 0.3, variable.shape))
        elif name.endswith(("moving_variance", "gamma")):
            variable.assign(generator.uniform(0.5, 2.0, variable.shape))
        elif name.endswith("output/kernel"):
            variable.assign(generator.normal(0, 1.0, variable.shape))
        elif name.startswith("recurrent") and name.endswith("kernel"):
            variable.assign(recurrent_gain * variable.value)
    checkpoint.save(folder / BEST_WEIGHTS, variables, {})
    config.save(run, folder / "config.json")
    english.save(folder / "alphabet.json")
    bins = run.features.num_bins
    normalization.Normalization(np.full(bins, -5, np.float32), np.full(bins, 2, np.float32)).save(
        folder / "normalization.npz"
    )
    return folder


@pytest.fixture(scope="session")
def native_operations():
    """The native operations, which must load wherever there is a compiler and no GPU."""
    if tf.config.get_visible_devices("GPU"):
        pytest.skip("the native operations are for CPUs; CUDA_VISIBLE_DEVICES='' hides the GPU")
    try:
        build.compiler()
    except build.BuildError as error:
        pytest.skip(str(error))
    operations = native.load()
    assert operations is not None, "there is a compiler, but the native operations do not load"
    return operations


@pytest.fixture(scope="session")
def digits_folder() -> pathlib.Path:
    """The recordings of spoken digits that the repository holds."""
    return pathlib.Path(__file__).parent / "data" / "digits" / "recordings"


@pytest.fixture
def tones(tmp_path):
    """Ten utterances of a file each, the shortest first, in the lines of a manifest."""
    paths = [write_tone(tmp_path / f"{i}.wav", 0.5 + 0.1 * i) for i in range(10)]
    path = tmp_path / "m.jsonl"
    manifest.write(path, [Utterance((p,), 0.5 + 0.1 * i, "aa b") for i, p in enumerate(paths)])
    return manifest.read(path)


@pytest.fixture
def train(tmp_path):
    return Corpus(tmp_path, "train", 6, seed=0)


@pytest.fixture
def dev(tmp_path):
    return Corpus(tmp_path, "dev", 2, seed=100)


@pytest.fixture
def workdir(tmp_path):
    return tmp_path / "run"
