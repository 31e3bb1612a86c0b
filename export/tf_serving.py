"""What TensorFlow Serving wants around a SavedModel: versions, batching, requests to warm up with.

Sources: TensorFlow Serving's guides to its configuration, batching and warm-up, and the protocol
buffers PredictionLog, PredictLog, PredictRequest and ModelSpec of tensorflow_serving.apis.
"""

import os
import pathlib
import shlex
from collections.abc import Iterator, Mapping

import numpy as np
import tensorflow as tf

from ds2_tf import atomic
from ds2_tf.errors import UserError
from export import signatures

WARM_UP_FILE = pathlib.PurePath("assets.extra", "tf_serving_warmup_requests")
BATCHING_FILE = "batching.config"

_BATCHING = """\
# For tensorflow_model_server --enable_batching --batching_parameters_file=THIS_FILE

# Requests are joined until they have so many rows (utterances or streams) ...
max_batch_size { value: 16 }
# ... or the first one has waited so long. Longer: more throughput and more latency.
batch_timeout_micros { value: 5000 }
# Batches that are computed at once; the number of cores is a good value.
num_batch_threads { value: 4 }
# Batches that may wait; a request that finds the queue full is refused with UNAVAILABLE.
max_enqueued_batches { value: 64 }
# Recordings differ in length: shorter ones are padded to the longest. The server repeats a row's
# first sample, which the model ignores, since waveform_lengths says where a recording ends.
pad_variable_length_inputs: true
"""

_WARM_UP_SECONDS = 1.0


def next_version(folder: str | os.PathLike) -> pathlib.Path:
    """Returns the folder of a model's next version: FOLDER/1, FOLDER/2, ...

    Raises:
      UserError: when the folder is itself a SavedModel.
    """
    folder = pathlib.Path(folder)
    if (folder / "saved_model.pb").exists():
        raise UserError(
            f"{folder}: is a SavedModel itself, and cannot hold versions of one; choose another "
            "--output"
        )
    names = os.listdir(folder) if folder.is_dir() else []
    versions = [int(name) for name in names if name.isascii() and name.isdigit()]
    return folder / str(max(versions, default=0) + 1)


def write_batching_config(folder: str | os.PathLike) -> None:
    """Writes batching.config into a model's folder; one that is there already is left alone."""
    path = pathlib.Path(folder, BATCHING_FILE)
    if not path.exists():
        with atomic.open_for_write(path) as file:
            file.write(_BATCHING)


def docker_command(folder: str | os.PathLike) -> str:
    """Returns the shell command that serves a model's folder, under its own name."""
    folder = pathlib.Path(os.path.abspath(folder))
    inside = f"/models/{folder.name}"
    return (
        f"docker run --rm -p 8500:8500 -p 8501:8501 -v {shlex.quote(f'{folder}:{inside}')} "
        f"-e MODEL_NAME={shlex.quote(folder.name)} tensorflow/serving --enable_batching "
        f"--batching_parameters_file={shlex.quote(f'{inside}/{BATCHING_FILE}')}"
    )


def write_warm_up(
    saved_model: pathlib.Path, functions: Mapping[str, signatures.Function], sample_rate_hz: int
) -> None:
    """Writes the requests that the server runs before it says that the model is there.

    The first run of a signature takes much longer than later ones, and no user should wait for it.

    Args:
      saved_model: the SavedModel's folder.
      functions: its signatures by name.
      sample_rate_hz: of the waveforms that it takes.
    """
    path = saved_model / WARM_UP_FILE
    path.parent.mkdir()
    with tf.io.TFRecordWriter(str(path)) as file:
        for name, inputs in _warm_up_requests(functions, sample_rate_hz):
            file.write(prediction_log(name, inputs))


def _warm_up_requests(
    functions: Mapping[str, signatures.Function], sample_rate_hz: int
) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    num_samples = round(_WARM_UP_SECONDS * sample_rate_hz)
    noise = np.random.default_rng(0).normal(0, 0.1, [1, num_samples]).astype(np.float32)
    sound = {"waveform": noise, "waveform_lengths": np.array([num_samples], np.int32)}
    yield signatures.TRANSCRIBE, sound
    if signatures.STREAM_START not in functions:
        return
    streams = np.zeros([1], np.int32)
    yield signatures.STREAM_START, {"streams": streams}
    start = functions[signatures.STREAM_START](tf.constant(streams))
    state = {name: tensor.numpy() for name, tensor in start.items()}
    yield signatures.STREAM_STEP, {**sound, "final": np.array([False]), **state}


def prediction_log(signature: str, inputs: Mapping[str, np.ndarray]) -> bytes:
    """Returns a request for a signature as a serialised PredictionLog of tensorflow_serving.apis.

    All fields that it needs are strings or messages, so it is written here and the export doesn't
    depend on the package.
    """
    model_spec = _field(3, signature.encode())  # ModelSpec.signature_name
    request = _field(1, model_spec)  # PredictRequest.model_spec
    for name, value in inputs.items():
        tensor = tf.make_tensor_proto(value).SerializeToString()
        request += _field(2, _field(1, name.encode()) + _field(2, tensor))  # .inputs[name]
    predict_log = _field(1, request)  # PredictLog.request
    return _field(6, predict_log)  # PredictionLog.predict_log


def _field(number: int, content: bytes) -> bytes:
    """Returns a field of a protocol buffer that holds a string or a message."""
    length_delimited = 2
    return _varint(number << 3 | length_delimited) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
