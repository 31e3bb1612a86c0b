"""Calls the native recurrence with NumPy arrays.

Axes: D directions, B utterances, T frames, H units, G = H values of a clipped ReLU, 3 H of a gated
unit.
"""

import ctypes
import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np

from tests.native.compiled import NATIVE, pointer

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
            pointer(np.array(inputs.lengths, np.int32)),
            pointer(projected),
            pointer(inputs.weights),
            pointer(inputs.initial),
            pointer(results.outputs),
            pointer(results.final),
            pointer(inputs.by_outputs),
            pointer(inputs.by_final),
            pointer(results.by_projected),
            pointer(results.by_weights),
            pointer(results.by_initial),
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
            pointer(a),
            ctypes.c_int64(a.shape[1]),
            transposed[0],
            pointer(b),
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
