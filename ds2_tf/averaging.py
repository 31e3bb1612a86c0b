"""The average of a run's last checkpoints, as a model folder of its own."""

import os
import pathlib
import shutil
import tempfile
from collections.abc import Sequence

from ds2_tf import checkpoint, config, model, normalization
from ds2_tf.acoustic_model import BEST_WEIGHTS
from ds2_tf.alphabet import Alphabet
from ds2_tf.decoding import settings
from ds2_tf.errors import UserError

# What programs read beside the weights. data.json is missing on purpose: so `ds2 train` refuses to
# go on in the folder, instead of overwriting the average.
_MODEL_FILES = ("config.json", "alphabet.json", "normalization.npz")


def last_checkpoints(workdir: str | os.PathLike, last: int) -> list[pathlib.Path]:
    """Returns the last checkpoints of a run, or as many as there are, the oldest first.

    Raises:
      ValueError: when `last` is below 1.
      UserError: when there is none.
    """
    if last < 1:
        raise ValueError(f"last must be >= 1. Received: {last}")
    folder = pathlib.Path(workdir) / "checkpoints"
    paths = checkpoint.CheckpointFolder(folder).paths()
    if not paths:
        raise UserError(
            f"{folder}: holds no checkpoint; --workdir must name the folder that `ds2 train` filled"
        )
    return paths[-last:]


def check_output(output: str | os.PathLike) -> None:
    """Raises UserError when `write` would refuse to write there."""
    if os.path.lexists(output):
        raise UserError(f"{output}: exists already; choose another --output")


def write(
    workdir: str | os.PathLike, checkpoints: Sequence[pathlib.Path], output: str | os.PathLike
) -> None:
    """Writes a model folder with the mean of a run's checkpoints as its best weights.

    The folder appears whole or not at all: it is written beside `output` under a temporary name.
    The running averages of batch normalisation are averaged like the weights.

    Args:
      workdir: the run.
      checkpoints: of the run.
      output: the folder to make.

    Raises:
      UserError: when the output exists or cannot be written, or the run lacks a file, holds a
        damaged one or one of another model.
    """
    check_output(output)
    folder, output = pathlib.Path(workdir), pathlib.Path(os.path.abspath(output))
    run = config.load(folder / "config.json")
    alphabet = Alphabet.load(folder / "alphabet.json")
    normalization.load(folder / "normalization.npz")
    network = model.DeepSpeech2(run.model, run.features.num_bins, alphabet.num_labels)
    variables = checkpoint.model_arrays(network)
    checkpoint.restore(checkpoints[-1], variables)  # so they are of the config's model
    for name, mean in checkpoint.average(checkpoints).items():
        variables[name].assign(mean)
    metadata = {"average_of": [str(path) for path in checkpoints]}
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent) as scratch:
            written = pathlib.Path(scratch, "model")
            checkpoint.save(written / BEST_WEIGHTS, variables, metadata)
            for name in _MODEL_FILES:
                shutil.copyfile(folder / name, written / name)
            if (folder / settings.FILE_NAME).exists():  # It may name files of the run.
                settings.load(folder).save(written)
            written.rename(output)
    except OSError as error:
        raise UserError(
            f"{output}: cannot be written ({error.strerror}); choose a folder you may write to, "
            "with room"
        ) from error
