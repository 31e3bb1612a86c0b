"""Transcribes recordings by a model on TensorFlow Serving, over REST (JSON).

It takes all that `ds2 transcribe` takes, and prints a line for each recording: path, tab, text.
With --stream it sends a recording in pieces, and prints a line whenever the text has grown: path,
seconds sent, text so far. The protocol needs nothing but Python's own library, and several
times the bytes of gRPC. docs/serving.md tells how to start a server.

Examples:
  python -m tools.serving_client_rest --model=digits recording.wav
  python -m tools.serving_client_rest --server=https://speech.example --model=digits a.wav b.flac
  python -m tools.serving_client_rest --model=digits --stream --chunk_ms=500 --live recording.wav
"""

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import numpy as np

from ds2_tf.bin import program
from ds2_tf.errors import UserError
from tools import serving_client

_REMEDIES = {
    404: "name a model of this server by --model",
    503: "try again, it is busy",
    504: "send less at once",
}


def connect(server: str, model: str, timeout_seconds: float) -> serving_client.Predict:
    """Returns the requests to a model: see `serving_client`.

    Raises:
      UsageError: when the server is no http address; a request raises UserError when it fails.
    """
    if urllib.parse.urlsplit(server).scheme not in ("http", "https"):
        raise program.UsageError(f"--server must begin with http:// or https://, not {server!r}")
    url = f"{server.rstrip('/')}/v1/models/{urllib.parse.quote(model, safe='')}:predict"

    def predict(signature: str, inputs: serving_client.Arrays) -> dict[str, np.ndarray]:
        lists = {name: value.tolist() for name, value in inputs.items()}
        body = json.dumps({"signature_name": signature, "inputs": lists}).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=timeout_seconds) as response:
                content = response.read()
        except urllib.error.HTTPError as error:
            remedy = _REMEDIES.get(error.code, "the server's log may tell more")
            raise UserError(f"{server}: {_message(error)} ({error.code}); {remedy}") from error
        except TimeoutError as error:
            raise UserError(
                f"{server}: no answer in {timeout_seconds:g} s; raise --timeout_seconds, or send "
                "less at once"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            reason = getattr(reason, "strerror", None) or reason
            raise UserError(
                f"{server}: cannot be reached ({reason}); start the server, or name another by "
                "--server"
            ) from error
        try:
            outputs = json.loads(content)["outputs"]
            return {name: _array(value) for name, value in outputs.items()}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{server}: does not answer as TensorFlow Serving; name another by --server"
            ) from error

    return predict


def _array(value: Any) -> np.ndarray:
    """Returns a tensor that was nested lists; its strings are UTF-8."""
    array = np.asarray(value)
    return np.char.encode(array, "utf-8") if array.dtype.kind == "U" else array


def _message(error: urllib.error.HTTPError) -> str:
    """Returns what the server says of an error, in one line."""
    try:
        message = str(json.loads(error.read())["error"])
    except (KeyError, TypeError, ValueError):
        message = str(error.reason)
    return " ".join(message.split())


def main(arguments: list[str]) -> int:
    """Prints what is said in the files."""
    return serving_client.main(arguments, connect, "http://localhost:8501")


if __name__ == "__main__":
    program.run(main)
