"""A trained model as a file for LiteRT (TensorFlow Lite): phones and other small devices.

The file holds graphs from samples to log-probabilities, of builtin operations only, which share
their weights: see `tflite_signatures`. Behind the flatbuffer lies a zip archive, as in TFLite
Metadata, with `metadata.json`: any unzip reads it, LiteRT doesn't mind it.
"""

import dataclasses
import io
import json
import os
import pathlib
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

from ds2_tf import atomic
from ds2_tf.acoustic_model import AcousticModel
from ds2_tf.errors import UserError
from ds2_tf.native import ops as native
from ds2_tf.streaming import StreamingModel
from export import tflite_signatures as signatures
from export.folding import without_batch_norm

QUANTIZATIONS = ("none", "float16", "dynamic", "int8")
METADATA = "metadata.json"
FORMAT_VERSION = 1
LONGEST_CHUNK_MS = 2000

# What int8 computes in integers. All else stays float: features and log-softmax need the range, and
# gates, rounded once in a frame, would let a recurrent state drift.
_INTEGER_OPERATIONS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")

# Layers that stay float all the same: the first convolution, since features have a wide range, and
# the output, which is compared. Both are small.
_FLOAT_LAYERS = re.compile(r"(^|[/;])(conv_0|output)(_\d+)*/")


@dataclasses.dataclass(frozen=True)
class Graphs:
    """What becomes the file.

    Attributes:
      signatures: functions by name.
      start: the state of a new stream, by name; empty if there is no streaming.
      module: owns the weights.
    """

    signatures: Mapping[str, signatures.Signature]
    start: Mapping[str, np.ndarray]
    module: tf.Module


def export(
    model: AcousticModel,
    output: str | os.PathLike,
    quantize: str = "none",
    chunk_ms: float = 100,
    calibration: Sequence[np.ndarray] = (),
) -> None:
    """Writes the file, in place of one that is there.

    Args:
      model: the trained model.
      output: the file.
      quantize: "none" for float32; "float16" or "dynamic" (int8) for smaller weights; "int8" for
        weights and activations of all products of matrices and all convolutions.
      chunk_ms: how much sound a step of a stream takes; 0 for whole utterances alone, which
        bidirectional models know.
      calibration: waveforms [S] float32 at the model's rate, such as the model will hear, from
        which "int8" learns the ranges of the activations. A few dozen do.

    Raises:
      UserError: for a model, a chunk or a file that cannot be.
      ValueError: for an unknown `quantize`, or "int8" without calibration.
    """
    if quantize not in QUANTIZATIONS:
        raise ValueError(f"quantize must be one of {QUANTIZATIONS}. Received: {quantize!r}")
    if quantize == "int8" and not calibration:
        raise ValueError("int8 needs waveforms for its calibration. Received: none")
    atomic.check_folder(pathlib.Path(output).absolute().parent)
    chunk = chunk_samples(chunk_ms, model.sample_rate_hz)
    graphs = make_graphs(model, chunk)
    content = io.BytesIO(_convert(graphs, quantize, calibration, chunk))
    with zipfile.ZipFile(content, "a") as archive:
        text = json.dumps(metadata(model, graphs, chunk, quantize), ensure_ascii=False)
        archive.writestr(METADATA, text + "\n")
    with atomic.open_for_write(output, "wb") as file:
        file.write(content.getvalue())


def check_output(output: str | os.PathLike, overwrite: bool = False) -> None:
    """Raises UserError when there is something at the output that must not be replaced."""
    if os.path.lexists(output) and not (overwrite and os.path.isfile(output)):
        raise UserError(
            f"{output}: exists already; choose another --output, or replace a file with --overwrite"
        )


def chunk_samples(chunk_ms: float, sample_rate_hz: int) -> int:
    """Returns the samples of a chunk.

    Raises:
      UserError: when they are no whole number, or too many.
    """
    samples = sample_rate_hz * chunk_ms / 1000
    if not 0 <= chunk_ms <= LONGEST_CHUNK_MS or samples != round(samples):
        raise UserError(
            f"chunk_ms must lie between 0 and {LONGEST_CHUNK_MS} and be a whole number of samples "
            f"at {sample_rate_hz} Hz, as 100 is. Received: {chunk_ms:g}"
        )
    return round(samples)


def make_graphs(model: AcousticModel, chunk: int) -> Graphs:
    """Returns the graphs for LiteRT; for chunk = 0 samples those of whole utterances alone.

    Raises:
      UserError: when a bidirectional model should stream.
    """
    found: dict[str, signatures.Signature] = {}
    start: dict[str, np.ndarray] = {}
    folded = without_batch_norm(model)
    with native.portable(lite=True):
        if chunk:
            try:
                streaming = StreamingModel(folded)
            except UserError as error:
                raise UserError(
                    f"{error}, or export whole utterances alone with --chunk_ms=0"
                ) from error
            start = {name: value.numpy() for name, value in signatures.start(streaming).items()}
            found |= signatures.stream(streaming, chunk)
        found |= signatures.whole(folded)
    module = tf.Module(name="deep_speech_2")
    module.weights = [weight.value for weight in folded.network.weights]
    return Graphs(found, start, module)


def metadata(model: AcousticModel, graphs: Graphs, chunk: int, quantize: str) -> dict[str, Any]:
    """Returns what a client must know, as JSON holds it."""
    found: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "quantize": quantize,
        "sample_rate_hz": model.sample_rate_hz,
        "seconds_per_frame": model.seconds_per_frame,
        "language": model.alphabet.language,
        "labels": ["", *model.alphabet.symbols],
        "signatures": [*graphs.signatures],
    }
    if graphs.start:
        found |= {
            "chunk_samples": chunk,
            "lookahead_ms": StreamingModel(model).lookahead_ms,
            "state": [
                {
                    "name": name,
                    "type": str(value.dtype),
                    "shape": list(value.shape),
                    "start": value.ravel().tolist() if value.any() else [0],
                }
                for name, value in graphs.start.items()
            ],
        }
    return found


def _convert(graphs: Graphs, quantize: str, calibration: Sequence[np.ndarray], chunk: int) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(graphs.module, folder, signatures=dict(graphs.signatures))
        converter = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=[*graphs.signatures]
        )
        if quantize != "none":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if quantize == "float16":
            converter.target_spec.supported_types = [tf.float16]
        if quantize != "int8":
            return converter.convert()
        converter.representative_dataset = lambda: _calibration_calls(graphs, calibration, chunk)
        quantizer = tf.lite.experimental.QuantizationDebugger(converter=converter)
        operations = {name for name in vars(schema.BuiltinOperator) if name.isupper()}
        quantizer.options = tf.lite.experimental.QuantizationDebugOptions(
            denylisted_ops=sorted(operations - set(_INTEGER_OPERATIONS)),
            denylisted_nodes=_float_nodes(quantizer.calibrated_model),
        )
        return quantizer.get_nondebug_quantized_model()


def _float_nodes(content: bytes) -> list[str]:
    """Returns the names of a flatbuffer's tensors that `_FLOAT_LAYERS` compute."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(content, 0))
    outputs = {
        graph.tensors[i].name.decode()
        for graph in model.subgraphs
        for operator in graph.operators
        for i in operator.outputs
    }
    return sorted(name for name in outputs if _FLOAT_LAYERS.search(name))


def _calibration_calls(
    graphs: Graphs, waveforms: Sequence[np.ndarray], chunk: int
) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Yields the calls of all signatures that recognise the waveforms."""
    for waveform in waveforms:
        yield signatures.TRANSCRIBE, {"waveform": waveform[np.newaxis]}
        if not chunk:
            continue
        state = dict(graphs.start)
        num_steps = len(waveform) // chunk
        for piece in waveform[: num_steps * chunk].reshape(num_steps, 1, chunk):
            call = {"samples": piece, **state}
            yield signatures.STREAM_STEP, call
            outputs = graphs.signatures[signatures.STREAM_STEP](**_tensors(call))
            state = {name: outputs[name].numpy() for name in state}
        rest = waveform[num_steps * chunk :]
        samples = np.zeros((1, chunk), np.float32)
        samples[0, : len(rest)] = rest
        lengths = np.array([len(rest)], np.int32)
        yield (
            signatures.STREAM_FINISH,
            {"samples": samples, "sample_lengths": lengths, **state},
        )


def _tensors(call: Mapping[str, np.ndarray]) -> dict[str, tf.Tensor]:
    return {name: tf.constant(value) for name, value in call.items()}
