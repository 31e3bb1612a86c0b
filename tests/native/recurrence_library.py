"""Builds the native recurrence with a C interface, and calls it with NumPy arrays.

Axes: D directions, B utterances, T frames, H units, G = H values of a clipped ReLU, 3 H of a gated
unit.
"""

import ctypes
import dataclasses
import hashlib
import pathlib
import subprocess
from collections.abc import Sequence

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
NATIVE = ROOT / "ds2_tf" / "native"
FLAGS = ["-std=c++17", "-fno-math-errno", "-Wall", "-Wextra", "-Werror", "-Wno-maybe-uninitialized"]
SOURCES = sorted(
    path
    for pattern in ("instruction_set.cc", "gemm*.cc", "recurrence*.cc")
    for path in NATIVE.glob(pattern)
    if not path.stem.endswith("_op")
)

CELLS = {"rnn": (0, 1), "gru": (1, 3)}
_AVX512_BF16 = 3
_EMULATED_AMX = 100
PRECISIONS = {"float32": 0, "bfloat16": 1}


def build(
    folder: pathlib.Path, output: str, arguments: Sequence[str | pathlib.Path]
) -> pathlib.Path:
    """Returns folder/output, compiled from the library's sources unless it is there already.

    A part of the file's name tells which sources and arguments it was built from.
    """
    digest = hashlib.sha256(repr([str(argument) for argument in arguments]).encode())
    headers = sorted(NATIVE.glob("*.h"))
    for path in [*headers, *SOURCES, *sorted(pathlib.Path(__file__).parent.glob("*.cc"))]:
        digest.update(path.name.encode() + path.read_bytes())
    target = folder / f"{digest.hexdigest()[:16]}-{output}"
    if not target.exists():
        partial = target.with_suffix(".partial")
        command = ["g++", *FLAGS, f"-I{ROOT}", *arguments, *SOURCES, "-pthread", "-o", partial]
        subprocess.run(command, check=True)
        partial.rename(target)
    return target


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What a recurrence is run with.

    Attributes:
      cell: One of `CELLS`.
      lengths: [B].
      projected: [B, T, D G], or [B, T, G] if the directions share it.
      weights: [D, H, G].
      by_outputs: [B, T, H], the gradient of the outputs.
      initial: [D, B, H] or None.
      by_final: [D, B, H] or None.
    """

    cell: str
    lengths: Sequence[int]
    projected: np.ndarray
    weights: np.ndarray
    by_outputs: np.ndarray
    initial: np.ndarray | None = None
    by_final: np.ndarray | None = None


@dataclasses.dataclass
class Results:
    """Outputs [B, T, H], final states [D, B, H], and gradients like what they belong to."""

    outputs: np.ndarray
    final: np.ndarray
    by_projected: np.ndarray
    by_weights: np.ndarray
    by_initial: np.ndarray


class RecurrenceLibrary:
    """The library, loaded."""

    def __init__(self, path: pathlib.Path) -> None:
        self._library = ctypes.CDLL(str(path))
        best = self._library.ds2_best_instruction_set()
        self.instruction_sets = list(range(1 + best))
        # For bfloat16 also the program for tiles, over emulated ones.
        self.kernels = [("float32", number) for number in self.instruction_sets]
        self.kernels += [("bfloat16", number) for number in self.instruction_sets]
        self.kernels += [("bfloat16", _EMULATED_AMX)] if best >= _AVX512_BF16 else []

    def run(
        self,
        inputs: Inputs,
        precision: str = "float32",
        instruction_set: int | None = None,
        num_threads: int = 1,
    ) -> Results:
        """Returns outputs and gradients."""
        directions, units, values = inputs.weights.shape
        num_utterances, num_frames, width = inputs.projected.shape
        projected = np.ascontiguousarray(inputs.projected, np.float32)
        # What isn't written stays visible.
        results = Results(
            np.full([num_utterances, num_frames, units], 7, np.float32),
            np.full([directions, num_utterances, units], 7, np.float32),
            np.full_like(projected, 7),
            np.full(inputs.weights.shape, 7, np.float32),
            np.full([directions, num_utterances, units], 7, np.float32),
        )
        self._library.ds2_recurrence(
            CELLS[inputs.cell][0],
            PRECISIONS[precision],
            self.instruction_sets[-1] if instruction_set is None else instruction_set,
            num_threads,
            directions > 1 and width == values,
            *map(ctypes.c_int64, (directions, num_utterances, num_frames, units)),
            _pointer(np.array(inputs.lengths, np.int32)),
            _pointer(projected),
            _pointer(inputs.weights),
            _pointer(inputs.initial),
            _pointer(results.outputs),
            _pointer(results.final),
            _pointer(inputs.by_outputs),
            _pointer(inputs.by_final),
            _pointer(results.by_projected),
            _pointer(results.by_weights),
            _pointer(results.by_initial),
        )
        return results

    def multiply(
        self,
        a: np.ndarray,
        b: np.ndarray,
        transposed: tuple[bool, bool] = (False, False),
        add_to: np.ndarray | None = None,
        precision: str = "float32",
        instruction_set: int | None = None,
        num_threads: int = 1,
    ) -> np.ndarray:
        """Returns a [M, K] times b [K, N]; `transposed` hands them over as [K, M] and [N, K]."""
        (rows, depth), columns = a.shape, b.shape[1]
        a = np.ascontiguousarray(a.T if transposed[0] else a, np.float32)
        b = np.ascontiguousarray(b.T if transposed[1] else b, np.float32)
        # The memory around the result must stay as it is.
        c = np.full([rows + 2, columns + 3], 7, np.float32)
        if add_to is not None:
            c[1:-1, 1:-2] = add_to
        self._library.ds2_multiply(
            PRECISIONS[precision],
            self.instruction_sets[-1] if instruction_set is None else instruction_set,
            num_threads,
            *map(ctypes.c_int64, (rows, columns, depth)),
            _pointer(a),
            ctypes.c_int64(a.shape[1]),
            transposed[0],
            _pointer(b),
            ctypes.c_int64(b.shape[1]),
            transposed[1],
            ctypes.c_void_p(c.ctypes.data + c.itemsize * (c.shape[1] + 1)),
            ctypes.c_int64(c.shape[1]),
            add_to is not None,
        )
        result = c[1:-1, 1:-2].copy()
        c[1:-1, 1:-2] = 7
        assert (c == 7).all()
        return result


def _pointer(array: np.ndarray | None) -> ctypes.c_void_p | None:
    if array is None:
        return None
    array = np.ascontiguousarray(array, array.dtype if array.dtype == np.int32 else np.float32)
    pointer = ctypes.c_void_p(array.ctypes.data)
    # Keeps a temporary array alive as long as the pointer to it.
    pointer.array = array  # type: ignore[attr-defined]
    return pointer
