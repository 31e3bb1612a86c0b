import json
import os

import numpy as np
import pytest
import tensorflow as tf

from ds2_tf import averaging, checkpoint
from ds2_tf.acoustic_model import AcousticModel
from ds2_tf.decoding import settings
from ds2_tf.errors import UserError

STEPS = (4, 30, 100)


@pytest.fixture
def run(tiny_workdir, tmp_path):
    """A run of three checkpoints, with an optimizer's variables, and all files of training."""
    return make_run(tiny_workdir, tmp_path / "run")


def make_run(tiny_workdir, folder):
    network = AcousticModel.load(tiny_workdir).network
    variables = checkpoint.model_arrays(network)
    checkpoint.save(folder / "best/weights.npz", variables, {})
    generator = np.random.default_rng(0)
    checkpoints = checkpoint.CheckpointFolder(folder / "checkpoints")
    for step in STEPS:
        for variable in variables.values():
            variable.assign_add(generator.uniform(0, 0.1, variable.shape))
        optimizer = {"optimizer/0000": tf.Variable(step, dtype=tf.int64)}
        checkpoints.save(step, variables | optimizer, {"step": step})
    for name in ("config.json", "alphabet.json", "normalization.npz"):
        (folder / name).write_bytes((tiny_workdir / name).read_bytes())
    for name in ("data.json", "metrics.jsonl"):
        (folder / name).write_text("{}\n")
    return folder


def mean_weights(run, steps):
    """Returns the means, computed in another way than the library's."""
    files = [np.load(run / "checkpoints" / f"step_{step:09d}.npz") for step in steps]
    names = [name for name in files[0].files if "/" in name and not name.startswith("optimizer/")]
    means = {}
    for name in names:
        stacked = np.stack([file[name] for file in files]).astype(np.longdouble)
        means[name] = stacked.mean(axis=0).astype(np.float32)
    return means


@pytest.mark.parametrize("last", [1, 2, 3, 5])
def test_the_average_is_a_model_of_its_own(run, tmp_path, last):
    decoder = settings.DecoderSettings("beam", language_model=str(run / "lm.binary"))
    decoder.save(run)
    output = tmp_path / "models" / "average"
    paths = averaging.last_checkpoints(run, last)
    steps = STEPS[-last:]
    assert [path.name for path in paths] == [f"step_{step:09d}.npz" for step in steps]
    averaging.write(run, paths, output)

    weights = checkpoint.model_arrays(AcousticModel.load(output).network)
    expected = mean_weights(run, steps)
    assert weights.keys() == expected.keys()
    for name, variable in weights.items():
        np.testing.assert_array_equal(variable.numpy(), expected[name], err_msg=name)
    with np.load(output / "best/weights.npz") as arrays:
        metadata = json.loads(str(arrays["metadata.json"]))
        assert set(arrays.files) == {*expected, "metadata.json"}
    assert metadata == {"average_of": [str(path) for path in paths]}

    copied = ["alphabet.json", "config.json", "normalization.npz"]
    assert sorted(os.listdir(output)) == sorted([*copied, "best", "decoder.json"])
    assert settings.load(output) == decoder
    for name in copied:
        assert (output / name).read_bytes() == (run / name).read_bytes()
    assert os.listdir(output.parent) == ["average"]
    assert output.stat().st_mode == run.stat().st_mode  # others may read it


def test_a_run_without_a_decoder_is_averaged_too(run, tmp_path):
    averaging.write(run, averaging.last_checkpoints(run, 3), tmp_path / "average")
    assert not (tmp_path / "average" / "decoder.json").exists()


@pytest.mark.parametrize("kind", ["folder", "empty folder", "file", "broken link"])
def test_nothing_is_overwritten(run, tmp_path, kind):
    output = tmp_path / "average"
    if kind == "file":
        output.write_text("mine")
    elif kind == "broken link":
        output.symlink_to(tmp_path / "nowhere")
    else:
        output.mkdir()
        if kind == "folder":
            (output / "notes.txt").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError) as error:
        averaging.write(run, averaging.last_checkpoints(run, 3), output)
    assert str(error.value) == f"{output}: exists already; choose another --output"
    assert sorted(tmp_path.rglob("*")) == before


def test_a_full_disk_leaves_nothing_behind(run, tmp_path, monkeypatch):
    def disk_full(file, **_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", disk_full)
    with pytest.raises(UserError) as error:
        averaging.write(run, averaging.last_checkpoints(run, 3), tmp_path / "average")
    message = str(error.value)
    assert message.startswith(f"{tmp_path}/")
    assert message.endswith(
        "cannot be written (No space left on device); make room, then start again"
    )
    assert os.listdir(tmp_path) == ["run"]


def test_a_run_without_checkpoints_is_named(tiny_workdir, tmp_path):
    for folder in (tiny_workdir, tmp_path / "gone"):
        with pytest.raises(UserError) as error:
            averaging.last_checkpoints(folder, 3)
        assert str(error.value) == (
            f"{folder}/checkpoints: holds no checkpoint; --workdir must name the folder that "
            "`ds2 train` filled"
        )


def test_checkpoints_of_another_config_are_named(run, tmp_path):
    path = run / "checkpoints" / "step_000000200.npz"
    checkpoint.save(path, {"conv_0/kernel": tf.Variable([1.0])}, {})
    with pytest.raises(UserError) as error:
        averaging.write(run, [path], tmp_path / "average")
    assert str(error.value).startswith(f"{path}: made by another model: conv_0/kernel has shape")
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize("name", ["config.json", "alphabet.json", "normalization.npz"])
def test_a_missing_file_of_the_run_is_named(run, tmp_path, name):
    (run / name).unlink()
    with pytest.raises(UserError, match=f"^{run / name}: "):
        averaging.write(run, averaging.last_checkpoints(run, 3), tmp_path / "average")
    assert os.listdir(tmp_path) == ["run"]


def test_averaging_none_is_an_error(run):
    with pytest.raises(ValueError, match=r"^last must be >= 1. Received: 0$"):
        averaging.last_checkpoints(run, 0)
