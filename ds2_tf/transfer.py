"""Transfer learning: a new model starts with the weights of an older one."""

import dataclasses
import os
import pathlib

import keras
import tensorflow as tf

from ds2_tf import checkpoint, config, normalization
from ds2_tf.acoustic_model import BEST_WEIGHTS
from ds2_tf.alphabet import Alphabet
from ds2_tf.errors import UserError
from ds2_tf.features import FeatureConfig

_FILES = ("config.json", "alphabet.json", "normalization.npz", str(BEST_WEIGHTS))
_OUTPUT_LAYER = ("output/kernel", "output/bias")


@dataclasses.dataclass(frozen=True)
class Report:
    """What a new model took from an older run.

    Attributes:
      weights: the file the tensors come from.
      loaded: tensors that have the older run's values now.
      left: tensors that stay as they were made, each with the reason.
      unused: the older run's tensors that the new model does not have.
    """

    weights: pathlib.Path
    loaded: tuple[str, ...]
    left: dict[str, str]
    unused: tuple[str, ...]

    def lines(self) -> list[str]:
        """Returns the report as lines for the log."""
        total = len(self.loaded) + len(self.left)
        found = [f"{self.weights}: loaded {len(self.loaded)} of {total} tensors"]
        found.append(f"loaded: {', '.join(self.loaded)}")
        found += [f"left as made: {name}: {reason}" for name, reason in self.left.items()]
        if self.unused:
            found.append(f"not in this model: {', '.join(self.unused)}")
        return found


def initialize(
    network: keras.Model, alphabet: Alphabet, source_workdir: str | os.PathLike
) -> Report:
    """Loads all that fits of another run's best weights.

    These are the tensors of the same name and shape. The output layer is loaded only when its
    labels mean the same symbols in both models. Dropout's random state is never loaded. The weights
    expect features normalised as in the older run: see `reusable_normalization`.

    Args:
      network: the new model, freshly made.
      alphabet: its alphabet.
      source_workdir: folder of the older run, or a released model.

    Raises:
      UserError: when the folder lacks a file or holds a damaged one, or nothing of it fits; the
        network stays as it was.
    """
    folder = _model_folder(source_workdir)
    source_alphabet = Alphabet.load(folder / "alphabet.json")
    same_labels = (source_alphabet.symbols, source_alphabet.kind) == (
        alphabet.symbols,
        alphabet.kind,
    )
    _, saved = checkpoint.read(folder / BEST_WEIGHTS)
    variables = {
        name: variable
        for name, variable in checkpoint.model_arrays(network).items()
        if tf.as_dtype(variable.dtype).is_floating  # dropout's seeds are integers
    }
    left = {}
    for name, variable in variables.items():
        shape = tuple(variable.shape)
        if name in _OUTPUT_LAYER and not same_labels:
            left[name] = "its labels mean other symbols there"
        elif name not in saved:
            left[name] = f"shape {shape} here, nothing there"
        elif saved[name].shape != shape:
            left[name] = f"shape {shape} here, {saved[name].shape} there"
    loaded = tuple(name for name in variables if name not in left)
    if not loaded:
        name = next(iter(left))
        raise UserError(
            f"{folder / BEST_WEIGHTS}: no tensor fits the new model ({name}: {left[name]}); set "
            f"config.model as in {folder / 'config.json'}"
        )
    for name in loaded:
        variables[name].assign(saved[name])
    weights = (name for name, array in saved.items() if array.dtype.kind == "f")
    unused = tuple(name for name in weights if name not in variables)
    return Report(folder / BEST_WEIGHTS, loaded, left, unused)


def reusable_normalization(
    feature_config: FeatureConfig, source_workdir: str | os.PathLike
) -> tuple[normalization.Normalization | None, str]:
    """Returns the feature statistics that another run's weights expect, and a line for the log.

    The statistics are None when the run's features are others than the new model's: these must be
    measured.

    Raises:
      UserError: when the folder lacks a file or holds a damaged one.
    """
    folder = _model_folder(source_workdir)
    source_config = config.load(folder / "config.json").features
    statistics = normalization.load(folder / "normalization.npz")
    theirs = dataclasses.asdict(source_config)
    changed = [
        f"{name} {value!r} here, {theirs[name]!r} there"
        for name, value in dataclasses.asdict(feature_config).items()
        if value != theirs[name]
    ]
    if changed:
        return None, f"feature statistics: measured anew, the features differ: {'; '.join(changed)}"
    return statistics, f"feature statistics: {folder / 'normalization.npz'}"


def _model_folder(workdir: str | os.PathLike) -> pathlib.Path:
    folder = pathlib.Path(workdir)
    missing = [name for name in _FILES if not (folder / name).is_file()]
    if missing:
        raise UserError(
            f"{folder}: lacks {', '.join(missing)}; name the folder of a trained model to start "
            "from"
        )
    return folder
