"""A trained model as a TensorFlow SavedModel, for TensorFlow Serving or a few lines of TensorFlow.

The folder holds all that recognition needs: features, normalisation, network and greedy decoding in
the graph, alphabet.json and config.json (the sample rate is `features.sample_rate_hz`) in assets/,
requests for TensorFlow Serving to warm up with in assets.extra/.
"""

import os
import pathlib
import tempfile
from collections.abc import Sequence

import tensorflow as tf

from ds2_tf import config
from ds2_tf.acoustic_model import AcousticModel
from ds2_tf.errors import UserError
from ds2_tf.native import ops as native
from export import signatures, tf_serving
from export.weights import StoredWeights


def export(
    model: AcousticModel,
    output: str | os.PathLike,
    overwrite: bool = False,
    dtype: str = "float32",
    more_assets: Sequence[str | os.PathLike] = (),
) -> None:
    """Writes a SavedModel with all of `signatures`; `transcribe` is also `serving_default`.

    The folder appears whole or not at all: it is written beside `output` under a temporary name.

    Args:
      model: the trained model.
      output: the folder to make.
      overwrite: replaces a SavedModel that is there already; anything else is never replaced.
      dtype: how the weights are stored: see `StoredWeights`.
      more_assets: files that lie beside alphabet.json and config.json, as decoder.json.

    Raises:
      UserError: when the output exists or cannot be written, or a weight does not fit the dtype.
    """
    output = pathlib.Path(os.path.abspath(output))
    check_output(output, overwrite)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent)
    except OSError as error:
        raise UserError(
            f"{output}: cannot be written ({error.strerror}); choose a folder you may write to"
        ) from error
    with temporary as scratch:
        written = pathlib.Path(scratch, "model")
        try:
            _write(model, written, pathlib.Path(scratch, "sources"), dtype, more_assets)
        except tf.errors.OpError as error:
            reason = error.message.partition("\n")[0]
            raise UserError(f"{output}: cannot be written ({reason}); make room there") from error
        check_output(output, overwrite)
        _put_in_place(written, output, pathlib.Path(scratch, "replaced"))


def check_output(output: str | os.PathLike, overwrite: bool = False) -> None:
    """Raises UserError when `export` would refuse to write there."""
    output = pathlib.Path(output)
    if not os.path.lexists(output):
        return
    if not overwrite:
        raise UserError(
            f"{output}: exists already; choose another --output, or replace it with --overwrite"
        )
    if not (output / "saved_model.pb").is_file():
        raise UserError(
            f"{output}: is not a SavedModel and is not overwritten; choose another --output"
        )


def size_bytes(output: str | os.PathLike) -> int:
    """Returns the size of all files in a folder."""
    return sum(path.stat().st_size for path in pathlib.Path(output).rglob("*") if path.is_file())


def _write(
    model: AcousticModel,
    folder: pathlib.Path,
    sources: pathlib.Path,
    dtype: str,
    more_assets: Sequence[str | os.PathLike],
) -> None:
    """Writes the SavedModel; `sources` is where its own assets lie until they are copied."""
    sources.mkdir()
    config_file, alphabet_file = sources / "config.json", sources / "alphabet.json"
    config.save(model.config, config_file)
    model.alphabet.save(alphabet_file)
    # Only variables and assets hang on this module, no object of Keras or of ours: what loads it
    # needs neither.
    module = tf.Module(name="deep_speech_2")
    weights = StoredWeights(model.network, dtype)
    module.weights = weights.variables_by_name
    module.assets = [
        tf.saved_model.Asset(str(path)) for path in (alphabet_file, config_file, *more_assets)
    ]
    with native.portable():
        # Graphs that the model has traced before may hold native operations.
        fresh = AcousticModel(model.config, model.alphabet, model.normalization, model.network)
        functions = {
            name: _with_weights(function, weights)
            for name, function in signatures.functions(
                fresh, config_file.read_text("utf-8"), alphabet_file.read_text("utf-8")
            ).items()
        }
        default = {
            tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY: functions[signatures.TRANSCRIBE]
        }
        tf.saved_model.save(module, str(folder), signatures=functions | default)
        tf_serving.write_warm_up(folder, functions, model.sample_rate_hz)


def _with_weights(function: signatures.Function, weights: StoredWeights) -> signatures.Function:
    """Returns the same function, reading the stored weights."""

    @tf.function(input_signature=function.input_signature, autograph=False)
    def reading_stored_weights(*arguments: tf.Tensor) -> dict[str, tf.Tensor]:
        with weights.used():
            return function.python_function(*arguments)

    return reading_stored_weights


def _put_in_place(written: pathlib.Path, output: pathlib.Path, replaced: pathlib.Path) -> None:
    """Renames `written` to `output`; what was there goes to `replaced`, or back after an error."""
    if not output.exists():
        written.rename(output)
        return
    output.rename(replaced)
    try:
        written.rename(output)
    except OSError:
        replaced.rename(output)
        raise
