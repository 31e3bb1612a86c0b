"""Files that are no checkpoint, a damaged one, or one of another model."""

import re

import numpy as np
import pytest
import tensorflow as tf

from ds2_tf import checkpoint
from ds2_tf.errors import UserError


def contents(variables):
    return {name: np.asarray(v.numpy()).tobytes() for name, v in variables.items()}


def small():
    return {
        "conv_0/kernel": tf.Variable([[1.0, 2.0], [3.0, 4.0]]),
        "seed": tf.Variable([5, 6], dtype=tf.uint32),
        "optimizer/0000": tf.Variable(7, dtype=tf.int64),
    }


def zeros():
    return {name: tf.Variable(tf.zeros_like(v)) for name, v in small().items()}


def test_any_damaged_byte_is_noticed_or_harmless(tmp_path):
    path = tmp_path / "step_000000001.npz"
    checkpoint.save(path, small(), {"step": 1})
    whole = path.read_bytes()
    message = re.compile(
        re.escape(str(path))
        + r": (is damaged or no checkpoint; put back a copy, or go on from an older "
        "one without it|made by another model: .* has shape .*; use the config .*)"
    )
    variables = zeros()
    nothing, everything = contents(variables), contents(small())
    num_errors = 0
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        error = ""
        try:
            metadata = checkpoint.restore(path, variables)
        except UserError as user_error:
            error = str(user_error)
        if error:
            num_errors += 1
            assert message.fullmatch(error)
            assert contents(variables) == nothing
        else:
            assert metadata == {"step": 1}
            assert contents(variables) == everything
            for variable in variables.values():
                variable.assign(tf.zeros_like(variable))
    assert num_errors > 0.7 * len(whole)


def test_a_truncated_file_is_named(tmp_path):
    path = tmp_path / "step_000000001.npz"
    checkpoint.save(path, small(), {"step": 1})
    whole = path.read_bytes()
    variables = zeros()
    for size in (0, 1, 3, 4, 5, 30, 200, len(whole) // 2, len(whole) - 22, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(UserError) as error:
            checkpoint.restore(path, variables)
        assert str(error.value) == (
            f"{path}: is damaged or no checkpoint; put back a copy, or go on from an older one "
            "without it"
        )
    assert contents(variables) == contents(zeros())


def write_array(path):
    with open(path, "wb") as file:
        np.save(file, np.zeros(3))


def write_without_metadata(path):
    with open(path, "wb") as file:
        np.savez(file, a=np.zeros(3))


def write_wrong_metadata(path):
    with open(path, "wb") as file:
        np.savez(file, **{"metadata.json": np.array("{'step'")})


def write_objects(path):
    with open(path, "wb") as file:
        np.savez(file, **{"metadata.json": np.array("{}"), "a": np.array([{}], object)})


@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.write_text("a text\nof two lines\n"),
        write_array,
        write_without_metadata,
        write_wrong_metadata,
        write_objects,
    ],
)
def test_another_kind_of_file_is_named(tmp_path, write):
    path = tmp_path / "weights.npz"
    write(path)
    with pytest.raises(UserError) as error:
        checkpoint.restore(path, {})
    assert str(error.value) == (
        f"{path}: is damaged or no checkpoint; put back a copy, or go on from an older one "
        "without it"
    )


def test_a_missing_file_is_named(tmp_path):
    for path, reason in [
        (tmp_path / "gone.npz", "No such file or directory"),
        (tmp_path, "Is a directory"),
    ]:
        with pytest.raises(UserError) as error:
            checkpoint.restore(path, {})
        assert str(error.value) == f"{path}: cannot be read ({reason}); take an older checkpoint"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"conv_0/kernel": tf.Variable(tf.zeros([2, 3]))},
            "conv_0/kernel has shape (2, 3) here and (2, 2) there",
        ),
        (
            {"conv_1/kernel": tf.Variable(tf.zeros([2]))},
            "conv_1/kernel has shape (2,) here and nothing there",
        ),
        ({"seed": None}, "seed has shape (2,) there and does not exist here"),
    ],
)
def test_the_file_of_another_model_is_refused_and_changes_nothing(tmp_path, change, message):
    path = tmp_path / "weights.npz"
    checkpoint.save(path, small(), {})
    variables = {name: v for name, v in (zeros() | change).items() if v is not None}
    before = contents(variables)
    with pytest.raises(UserError) as error:
        checkpoint.restore(path, variables)
    assert str(error.value) == (
        f"{path}: made by another model: {message}; use the config that lies beside the checkpoint"
    )
    assert contents(variables) == before


def test_weights_of_a_whole_checkpoint_can_be_taken_alone(tmp_path):
    checkpoint.save(tmp_path / "c.npz", small(), {"step": 9})
    weights = {name: v for name, v in zeros().items() if not name.startswith("optimizer/")}
    assert checkpoint.restore(tmp_path / "c.npz", weights) == {"step": 9}
    np.testing.assert_array_equal(weights["conv_0/kernel"], [[1, 2], [3, 4]])
