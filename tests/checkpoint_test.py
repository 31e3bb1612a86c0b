import json
import math
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from ds2_tf import checkpoint, optimizer
from ds2_tf.errors import UserError
from ds2_tf.model import DeepSpeech2, ModelConfig

CONFIG = ModelConfig(
    conv_channels=(2,),
    conv_kernels=((3, 3),),
    conv_strides=((2, 2),),
    rnn_layers=2,
    rnn_units=3,
    dense_layers=1,
    dense_units=4,
    dropout=0.5,
)


def make(seed, name="adam"):
    """Returns a network and its optimizer."""
    keras.utils.set_random_seed(seed)
    network = DeepSpeech2(CONFIG, num_bins=9, num_labels=5)
    update = optimizer.make(optimizer.OptimizerConfig(name))
    update.build(network.trainable_variables)
    return network, update


def train(network, update, num_steps):
    """Returns the logits of each step: dropout, averages and moments all move."""
    batch = {
        "features": tf.constant(np.random.default_rng(0).normal(size=(2, 12, 9)), tf.float32),
        "feature_lengths": tf.constant([12, 7]),
    }
    update.learning_rate.assign(0.01)
    found = []
    for _ in range(num_steps):
        with tf.GradientTape() as tape:
            logits = network(batch, training=True)["logits"]
            loss = tf.reduce_mean(tf.square(logits - 1))
        gradients = tape.gradient(loss, network.trainable_variables)
        update.apply(gradients, network.trainable_variables)
        found.append(logits.numpy())
    return found


def variables_of(network, update):
    return checkpoint.model_arrays(network) | checkpoint.optimizer_arrays(update)


def contents(variables):
    return {name: np.asarray(v.numpy()).tobytes() for name, v in variables.items()}


@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_a_restored_run_goes_on_bit_for_bit(tmp_path, name):
    network, update = make(0, name)
    train(network, update, 3)
    variables = variables_of(network, update)
    path = tmp_path / "step.npz"
    metadata = {"step": 3, "best_score": [0.1, float("inf")], "note": "ä"}
    checkpoint.save(path, variables, metadata)
    saved = contents(variables)

    other_network, other_update = make(1, name)
    restored = variables_of(other_network, other_update)
    assert contents(restored) != saved
    assert checkpoint.restore(path, restored) == metadata
    assert contents(restored) == saved
    expected = train(network, update, 2)
    np.testing.assert_array_equal(train(other_network, other_update, 2), expected)
    assert contents(restored) == contents(variables)


def test_nothing_that_training_changes_is_forgotten():
    network, update = make(0)
    assert len(checkpoint.model_arrays(network)) == len(network.variables)
    assert len(checkpoint.optimizer_arrays(update)) == len(update.variables)
    before = contents(variables_of(network, update))
    train(network, update, 1)
    after = contents(variables_of(network, update))
    still = {name for name in before if before[name] == after[name]}
    assert still <= {"optimizer/0001"}, still  # the learning rate, set beforehand
    seeds = [name for name in before if "seed" in name]
    assert len(seeds) == 3  # one a dropout layer


def test_names_do_not_depend_on_what_was_built_before():
    names = [sorted(checkpoint.model_arrays(make(seed)[0])) for seed in range(2)]
    assert names[0] == names[1]
    assert "conv_0/linear/kernel" in names[0]
    assert "output/bias" in names[0]


def test_half_a_write_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    folder = checkpoint.CheckpointFolder(tmp_path)
    path = folder.save(1, {"a/b": tf.Variable([1.0, 2.0])}, {"step": 1})
    before = path.read_bytes()

    def disk_full(file, **_):
        file.write(before[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", disk_full)
    for step in (1, 2):
        with pytest.raises(UserError, match="No space left on device.; make room"):
            folder.save(step, {"a/b": tf.Variable([0.0, 0.0])}, {"step": step})
    assert folder.latest() == path
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


# Saves 24 MiB again and again in a child, kills it in the middle of a write and looks at the file.
KILLED_WRITES = """
import glob, os, signal, sys
import numpy as np
from ds2_tf import checkpoint

folder = sys.argv[1]
path = os.path.join(folder, "step_000000007.npz")
shape = (6, 1 << 20)

class Variable:
    def numpy(self):
        return np.full(shape, self.value, np.float32)

def save(value):
    variable = Variable()
    variable.value = value
    checkpoint.save(path, {"a": variable}, {"value": value})

for first in (0, 100, 200):
    save(first)
    child = os.fork()
    if child == 0:
        for value in range(first + 1, first + 100):
            save(value)
        os._exit(0)
    while True:
        sizes = [os.stat(name).st_size for name in glob.glob(os.path.join(folder, ".step_*.tmp"))
                 if os.path.exists(name)]
        if any(1 << 20 < size < 20 << 20 for size in sizes):
            break
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    saved = np.load(path)["a"]
    assert saved.shape == shape and (saved == saved[0, 0]).all()
    print(int(saved[0, 0]))
"""


def test_kill_9_in_the_middle_of_a_write_leaves_a_whole_checkpoint(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", KILLED_WRITES, tmp_path],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    values = [int(line) for line in result.stdout.split()]
    assert [value // 100 for value in values] == [0, 1, 2]

    leftovers = [path for path in tmp_path.iterdir() if path.suffix == ".tmp"]
    assert leftovers
    folder = checkpoint.CheckpointFolder(tmp_path)
    assert folder.latest() == tmp_path / "step_000000007.npz"
    folder.save(8, {"a": tf.Variable(0.0)}, {})
    assert not any(path.exists() for path in leftovers)
    assert sorted(os.listdir(tmp_path)) == ["step_000000007.npz", "step_000000008.npz"]


def test_two_variables_of_one_name_are_an_error():
    class Layer:
        name = "conv_0"
        variables = (keras.Variable(0.0, name="scale"), keras.Variable(1.0, name="scale"))

    class Model:
        layers = (Layer,)

    with pytest.raises(ValueError, match="^two variables of the model have the name conv_0/scale$"):
        checkpoint.model_arrays(Model)


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_only_the_newest_are_kept(tmp_path, keep):
    folder = checkpoint.CheckpointFolder(tmp_path / "checkpoints", keep)
    assert folder.latest() is None
    steps = [1, 5, 20, 100, 1000]
    for count, step in enumerate(steps, start=1):
        path = folder.save(step, {"a": tf.Variable(step)}, {"step": step})
        assert folder.latest() == path
        kept = [json.loads(str(np.load(p)["metadata.json"]))["step"] for p in sorted_paths(path)]
        assert kept == steps[max(0, count - keep) : count]


def sorted_paths(path):
    return sorted(path.parent.iterdir())


def test_other_files_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "a.npz").write_text("mine")
    folder = checkpoint.CheckpointFolder(tmp_path, keep=1)
    assert folder.latest() is None
    for step in range(3):
        folder.save(step, {}, {})
    assert sorted(os.listdir(tmp_path)) == ["a.npz", "notes.txt", "step_000000002.npz"]


def test_keeping_none_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"^keep must be >= 1. Received: 0$"):
        checkpoint.CheckpointFolder(tmp_path, 0)


def save_arrays(path, **arrays):
    checkpoint.save(path, {name: tf.Variable(value) for name, value in arrays.items()}, {})
    return path


def test_the_average_is_the_mean_of_the_weights_alone(tmp_path):
    paths = []
    for step in range(3):
        network, update = make(step)
        train(network, update, 1 + step)
        paths.append(tmp_path / f"{step}.npz")
        checkpoint.save(paths[-1], variables_of(network, update), {"step": step})
    found = checkpoint.average(paths)
    files = [np.load(path) for path in paths]
    assert found.keys() == checkpoint.model_arrays(network).keys()
    for name, value in found.items():
        arrays = [file[name] for file in files]
        assert value.dtype == arrays[-1].dtype
        expected = arrays[-1]
        if "seed" not in name:
            columns = zip(*(array.astype(float).ravel() for array in arrays), strict=True)
            means = [math.fsum(column) / 3 for column in columns]
            expected = np.array(means).reshape(expected.shape).astype(np.float32)
        np.testing.assert_array_equal(value, expected, err_msg=name)
    assert checkpoint.average([str(paths[1])]).keys() == found.keys()


def test_means_are_rounded_once(tmp_path):
    """In float16, 2048 + 1 is 2048; and two of the largest numbers add up to infinity."""
    paths = [
        save_arrays(tmp_path / f"{i}.npz", a=np.float16([value, 65504]), n=np.int32(i))
        for i, value in enumerate((2048, 1, 1, 2, 1))
    ]
    found = checkpoint.average(paths)
    assert found["a"].dtype == np.float16
    np.testing.assert_array_equal(found["a"], np.float16([2053 / 5, 65504]))
    assert found["n"] == 4


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": [1.0], "b": [1.0]}, "a has shape (1,) here and (2,) there"),
        ({"a": [1.0, 2.0]}, "b has shape nothing here and (1,) there"),
        ({"a": [1.0, 2.0], "b": [1.0], "c": 1.0}, "c has shape () here and nothing there"),
    ],
)
def test_different_models_are_not_averaged(tmp_path, arrays, message):
    other = save_arrays(tmp_path / "other.npz", **arrays)
    last = save_arrays(tmp_path / "last.npz", a=[1.0, 2.0], b=[1.0])
    with pytest.raises(UserError) as error:
        checkpoint.average([last, other, last])
    assert str(error.value) == (
        f"{other}: of another model than {last}: {message}; average the checkpoints of one run"
    )


def test_no_average_without_files(tmp_path):
    with pytest.raises(ValueError, match=r"^paths must name at least one checkpoint. Received: no"):
        checkpoint.average([])
    with pytest.raises(UserError, match=r"gone.npz: cannot be read \(No such file or directory\)"):
        checkpoint.average([tmp_path / "gone.npz"])
