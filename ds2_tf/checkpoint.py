"""Checkpoints: all that a run needs to go on as if it had never stopped."""

import json
import os
import pathlib
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from ds2_tf import atomic
from ds2_tf.errors import UserError

_METADATA = "metadata.json"
_OPTIMIZER = "optimizer/"
_DAMAGE = (EOFError, KeyError, OSError, RuntimeError, TypeError, ValueError)


def model_arrays(model: keras.Model) -> dict[str, Any]:
    """Returns a model's variables by stable names: weights, running averages, dropout's seeds."""
    variables = {}
    for layer in model.layers:
        for variable in layer.variables:
            own = variable.path.startswith(f"{layer.name}/")
            name = variable.path if own else f"{layer.name}/{variable.name}"
            if name in variables:
                raise ValueError(f"two variables of the model have the name {name}")
            variables[name] = variable
    return variables


def optimizer_arrays(optimizer: keras.optimizers.Optimizer) -> dict[str, Any]:
    """Returns an optimizer's variables by number: step count, learning rate, moments."""
    return {f"{_OPTIMIZER}{i:04d}": v for i, v in enumerate(optimizer.variables)}


def save(path: str | os.PathLike, variables: Mapping[str, Any], metadata: dict[str, Any]) -> None:
    """Writes variables and JSON metadata to one file, whole or not at all."""
    arrays = {name: np.asarray(value.numpy()) for name, value in variables.items()}
    with atomic.open_for_write(path, "wb") as file:
        arrays[_METADATA] = np.array(json.dumps(metadata))
        np.savez(file, **arrays)  # type: ignore[arg-type]


def restore(path: str | os.PathLike, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Assigns the saved values to the variables and returns the metadata.

    Optimizer variables that the file holds and nobody asks for are left out.

    Raises:
      UserError: when the file is missing, damaged, or of another model.
    """
    metadata, saved = read(path)
    for name, value in saved.items():
        if name not in variables and not name.startswith(_OPTIMIZER):
            raise UserError(
                f"{path}: made by another model: {name} has shape {value.shape} there and does not "
                "exist here; use the config that lies beside the checkpoint"
            )
    for name, variable in variables.items():
        if name not in saved or saved[name].shape != tuple(variable.shape):
            found = saved[name].shape if name in saved else "nothing"
            raise UserError(
                f"{path}: made by another model: {name} has shape {tuple(variable.shape)} here and "
                f"{found} there; use the config that lies beside the checkpoint"
            )
    for name, variable in variables.items():
        variable.assign(saved[name])
    return metadata


def average(paths: Sequence[str | os.PathLike]) -> dict[str, np.ndarray]:
    """Returns the mean of several checkpoints of one model, by the names of `model_arrays`.

    Sums are float64, means have the type of the last checkpoint's arrays. Integers (dropout's
    seeds) are the last checkpoint's; optimizer variables are left out.

    Raises:
      ValueError: without any path.
      UserError: when a file is missing, damaged, or of another model than the last.
    """
    if not paths:
        raise ValueError("paths must name at least one checkpoint. Received: none")
    last = _read_model(paths[-1])
    sums = {name: a.astype(np.float64) for name, a in last.items() if a.dtype.kind == "f"}
    for path in paths[:-1]:
        arrays = _read_model(path)
        for name in sorted(last.keys() | arrays.keys()):
            here, there = (a[name].shape if name in a else "nothing" for a in (arrays, last))
            if here != there:
                raise UserError(
                    f"{path}: of another model than {paths[-1]}: {name} has shape {here} here and "
                    f"{there} there; average the checkpoints of one run"
                )
        for name in sums:
            sums[name] += arrays[name]
    means = {name: (total / len(paths)).astype(last[name].dtype) for name, total in sums.items()}
    return last | means


def _read_model(path: str | os.PathLike) -> dict[str, np.ndarray]:
    _, arrays = read(path)
    return {name: array for name, array in arrays.items() if not name.startswith(_OPTIMIZER)}


def read(path: str | os.PathLike) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns the metadata and the arrays that `save` wrote.

    Raises:
      UserError: when the file is missing or damaged.
    """
    try:
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror}); take an older checkpoint"
        ) from error
    try:
        with file, np.load(file) as arrays:
            metadata = json.loads(str(arrays[_METADATA]))
            return metadata, {name: arrays[name] for name in arrays.files if name != _METADATA}
    except (*_DAMAGE, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path}: is damaged or no checkpoint; put back a copy, or go on from an older one "
            "without it"
        ) from error


class CheckpointFolder:
    """The last few checkpoints of a run, named by their step."""

    def __init__(self, folder: str | os.PathLike, keep: int = 3) -> None:
        if keep < 1:
            raise ValueError(f"keep must be >= 1. Received: {keep}")
        self._folder = pathlib.Path(folder)
        self._keep = keep

    def latest(self) -> pathlib.Path | None:
        """Returns the newest checkpoint, or None."""
        paths = self.paths()
        return paths[-1] if paths else None

    def save(
        self, step: int, variables: Mapping[str, Any], metadata: dict[str, Any]
    ) -> pathlib.Path:
        """Writes the checkpoint of a step; removes old ones, and what a kill left unfinished."""
        path = self._folder / f"step_{step:09d}.npz"
        save(path, variables, metadata)
        for unfinished in self._folder.glob(".step_*.tmp"):  # left by a killed process
            unfinished.unlink()
        for old in self.paths()[: -self._keep]:
            old.unlink()
        return path

    def paths(self) -> list[pathlib.Path]:
        """Returns all checkpoints, the oldest first."""
        return sorted(self._folder.glob("step_*.npz"))
