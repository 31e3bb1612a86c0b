"""PyTorch in a process of its own, so that it need not be importable where ds2_tf is."""

import contextlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ds2_tf.benchmarks.measurement import Times
from ds2_tf.errors import UserError

_PEER = pathlib.Path(__file__).with_name("torch_peer.py")


class TorchClient:
    """The running peer; see `torch_peer` for what it can do."""

    def __init__(self, process: subprocess.Popen) -> None:
        self._process = process
        self.version = self._read()["version"]

    def prepare(self, name: str, kind: str, **arguments: Any) -> Callable[[], Times]:
        """Gives the peer something to time under a name; returns what times it once."""
        self._ask(prepare=name, kind=kind, arguments=arguments)
        return lambda: Times(**self._ask(run=name))

    def peak_bytes(self, name: str) -> int:
        """Returns what is prepared under the name added to the process's peak resident set.

        Meant for a peer that has done nothing else.
        """
        return self._ask(peak=name)["bytes"]

    def gradient(self, name: str, num_rows: int) -> np.ndarray:
        """Returns the gradient [T, num_rows, V] of a CTC loss for the first rows of the batch."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "gradient.npy")
            self._ask(save=name, path=path, num_rows=num_rows)
            return np.load(path)

    def forget(self, name: str) -> None:
        """Frees what was prepared under the name."""
        self._ask(forget=name)

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": "it ended; see its messages above"}
        if "error" in answer:
            raise UserError(f"PyTorch's process: {answer['error']}")
        return answer


@contextlib.contextmanager
def start(python: str, num_threads: int) -> Iterator[TorchClient | None]:
    """Runs PyTorch's process, or nothing where there is no PyTorch.

    Args:
      python: a Python interpreter with PyTorch; "" for this one if it has it.
      num_threads: 0 leaves the number alone.

    Raises:
      UserError: the interpreter named doesn't run or has no PyTorch.
    """
    if not python:
        if importlib.util.find_spec("torch") is None:
            yield None
            return
        python = sys.executable
    # Its idle threads would otherwise spin, on a core that ours needs.
    environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}
    try:
        process = subprocess.Popen(
            [python, str(_PEER), str(num_threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
    except OSError as error:
        raise UserError(f"--torch_python: {python}: {error.strerror}") from error
    with process:
        try:
            yield TorchClient(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
