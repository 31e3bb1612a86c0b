"""What clients of TensorFlow Serving do with an exported model, whatever carries their requests.

A request is a call `predict(signature, inputs) -> outputs`, from names to NumPy arrays to the same;
strings are bytes.
tools/serving_client_grpc.py and tools/serving_client_rest.py make it of their protocols.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
from absl import flags

from ds2_tf import audio
from ds2_tf.bin import program
from ds2_tf.errors import UserError

Arrays: TypeAlias = Mapping[str, np.ndarray]
Predict: TypeAlias = Callable[[str, Arrays], Arrays]

LONGEST_SECONDS = 60.0  # that go in one request

_SERVER = flags.DEFINE_string(
    "server", None, "Address: HOST:PORT for gRPC, a URL for REST; by default of this machine."
)
_MODEL = flags.DEFINE_string("model", None, "Name that the server gives the model.")
_STREAM = flags.DEFINE_bool(
    "stream", False, "Send pieces of --chunk_ms, and show the text as it grows."
)
_CHUNK_MS = flags.DEFINE_integer("chunk_ms", 200, "Length of a piece.", 1)
_LIVE = flags.DEFINE_bool("live", False, "With --stream: send no faster than it was spoken.")
_TIMEOUT_SECONDS = flags.DEFINE_float("timeout_seconds", 60.0, "For each request.", 0.001)


class Model(NamedTuple):
    """What a client must know of the model on the server."""

    sample_rate_hz: int
    streams: bool


def main(
    paths: list[str], connect: Callable[[str, str, float], Predict], default_server: str
) -> int:
    """Prints what is said in the files.

    Args:
      paths: the recordings.
      connect: gives the requests to a server's model: connect(server, model, timeout_seconds).
      default_server: its address, if --server names no other.
    """
    if not _MODEL.value:
        raise program.UsageError("--model is required")
    if not paths:
        raise program.UsageError("name at least one recording")
    if _LIVE.value and not _STREAM.value:
        raise program.UsageError("--live needs --stream")
    predict = connect(_SERVER.value or default_server, _MODEL.value, _TIMEOUT_SECONDS.value)
    model = describe(predict)
    if _STREAM.value and not model.streams:
        raise UserError(
            f"{_MODEL.value}: the model is bidirectional and needs the whole recording; leave out "
            "--stream"
        )
    show = _show_stream if _STREAM.value else _show_text
    for path in paths:
        show(predict, path, model.sample_rate_hz)
    return 0


def _show_text(predict: Predict, path: str, sample_rate_hz: int) -> None:
    samples = audio.load(path, sample_rate_hz)
    seconds = len(samples) / sample_rate_hz
    if seconds > LONGEST_SECONDS:
        raise UserError(
            f"{path}: has {seconds:.0f} s, and {LONGEST_SECONDS:.0f} s go in one request; use "
            "--stream, or `ds2 transcribe`"
        )
    print(f"{path}\t{transcribe(predict, samples)}", flush=True)


def _show_stream(predict: Predict, path: str, sample_rate_hz: int) -> None:
    chunks = audio.blocks(path, sample_rate_hz, _CHUNK_MS.value / 1000)
    if _LIVE.value:
        chunks = as_spoken(chunks, sample_rate_hz)
    shown = None
    for num_samples, text in stream(predict, chunks):
        if text != shown:
            print(f"{path}\t{num_samples / sample_rate_hz:.2f}\t{text}", flush=True)
            shown = text


def describe(predict: Predict) -> Model:
    """Asks the server what the model is."""
    outputs = predict("describe", {"request": np.zeros([1], np.int32)})
    config = json.loads(outputs["config"][0])
    return Model(config["features"]["sample_rate_hz"], not config["model"]["bidirectional"])


def transcribe(predict: Predict, samples: np.ndarray) -> str:
    """Returns the text of a whole recording: samples [S] float32 at the model's rate."""
    outputs = predict("transcribe", _sound(samples))
    return outputs["text"][0].decode("utf-8")


def stream(predict: Predict, chunks: Iterable[np.ndarray]) -> Iterator[tuple[int, str]]:
    """Sends a stream piece by piece, and yields after each what is known of its text.

    The server keeps nothing: each answer holds the state that goes with the next request.

    Args:
      predict: sends a request.
      chunks: the samples [S] float32 of any S, at the model's rate.

    Yields:
      how many samples were sent, and the text so far.
    """
    state = predict("stream_start", {"streams": np.zeros([1], np.int32)})
    num_samples, text = 0, ""
    for chunk, final in _with_last(chunks):
        inputs = {**_sound(chunk), "final": np.array([final]), **state}
        outputs = predict("stream_step", inputs)
        state = {name: outputs[name] for name in state}
        num_samples += len(chunk)
        text += outputs["text"][0].decode("utf-8")
        yield num_samples, re.sub(" +", " ", text).strip(" ")


def as_spoken(chunks: Iterable[np.ndarray], sample_rate_hz: int) -> Iterator[np.ndarray]:
    """Yields each chunk when it would have been spoken."""
    begin, seconds = time.monotonic(), 0.0
    for chunk in chunks:
        seconds += len(chunk) / sample_rate_hz
        time.sleep(max(0.0, begin + seconds - time.monotonic()))
        yield chunk


def _sound(samples: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the inputs that hold samples [S]; one that doesn't count if there are none.

    TensorFlow Serving cannot join an empty waveform with others.
    """
    waveform = samples if len(samples) else np.zeros([1], np.float32)
    return {
        "waveform": waveform[np.newaxis].astype(np.float32),
        "waveform_lengths": np.array([len(samples)], np.int32),
    }


def _with_last(chunks: Iterable[np.ndarray]) -> Iterator[tuple[np.ndarray, bool]]:
    """Yields each chunk, and whether it is the last; one that is empty if there are none."""
    chunks = iter(chunks)
    chunk = next(chunks, np.zeros([0], np.float32))
    for following in chunks:
        yield chunk, False
        chunk = following
    yield chunk, True
