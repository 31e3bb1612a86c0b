"""Calls the native CTC library with NumPy arrays.

Axes: B utterances, T frames, V symbols with the blank, U labels.
"""

import ctypes
import dataclasses
import pathlib
from collections.abc import Sequence

import ml_dtypes
import numpy as np

from tests.native.compiled import NATIVE, pointer

SOURCES = [
    NATIVE / name
    for name in (
        "ctc_cpu.cc",
        "ctc_emulation.cc",
        "ctc_kernel_plan.cc",
        "ctc_plan.cc",
        "ctc_targets.cc",
        "instruction_set.cc",
    )
]

OK, INFEASIBLE, IMPOSSIBLE, INVALID_LABEL, INVALID_LENGTH, INVALID_LOGIT = range(6)

_ELEMENT_TYPES = {np.dtype(np.float32): 0, np.dtype(ml_dtypes.bfloat16): 1, np.dtype(np.float16): 2}


@dataclasses.dataclass(frozen=True)
class Result:
    """What one call returned: losses [B], statuses [B] and gradients like the logits."""

    losses: np.ndarray
    statuses: np.ndarray
    gradients: np.ndarray


class CtcLibrary:
    """The library, loaded."""

    def __init__(self, path: pathlib.Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self.instruction_sets = list(range(self._library.ds2_num_instruction_sets()))

    def __call__(
        self,
        logits: np.ndarray,
        logit_lengths: Sequence[int],
        labels: np.ndarray,
        label_lengths: Sequence[int],
        *,
        blank: int = 0,
        time_major: bool = False,
        num_workers: int = 1,
        instruction_set: int | None = None,
        emulated_shared_bytes: int = -1,
        reverses_threads: bool = False,
        with_gradients: bool = True,
    ) -> Result:
        """Computes a batch on the CPU, or on an emulated GPU with so much shared memory.

        Args:
          logits: [B, T, V], always; `time_major` hands them over as [T, B, V].
          logit_lengths: [B].
          labels: [B, U].
          label_lengths: [B].
          blank: The blank's symbol.
          time_major: See logits.
          num_workers: Threads.
          instruction_set: One of `instruction_sets`, by default the best.
          emulated_shared_bytes: Shared memory of an emulated GPU's block; -1 runs the CPU's form.
          reverses_threads: Runs an emulated GPU's threads in reverse order.
          with_gradients: If false, the gradients returned are what the buffer held before.
        """
        num_utterances, num_frames, num_symbols = logits.shape
        strides = (num_frames * num_symbols, num_symbols)
        if time_major:
            strides = (num_symbols, num_utterances * num_symbols)
            logits = logits.transpose(1, 0, 2)
        logits = np.ascontiguousarray(logits)
        # Nothing of this may be left where gradients belong.
        gradients = np.full_like(logits, 7)
        losses = np.full([num_utterances], 7, np.float32)
        statuses = np.full([num_utterances], 7, np.int32)
        label_array = np.ascontiguousarray(labels, np.int32)
        self._library.ds2_ctc(
            _ELEMENT_TYPES[logits.dtype],
            pointer(logits),
            pointer(gradients) if with_gradients else None,
            *map(ctypes.c_int64, strides),
            num_utterances,
            num_frames,
            num_symbols,
            blank,
            pointer(np.array(logit_lengths, np.int32)),
            pointer(label_array),
            pointer(np.array(label_lengths, np.int32)),
            label_array.shape[1],
            pointer(losses),
            pointer(statuses),
            num_workers,
            self.instruction_sets[-1] if instruction_set is None else instruction_set,
            ctypes.c_int64(emulated_shared_bytes),
            reverses_threads,
        )
        return Result(losses, statuses, gradients.transpose(1, 0, 2) if time_major else gradients)

    def uses_wide_range(self, logits: np.ndarray, labels: Sequence[int]) -> bool:
        """Returns whether logits [T, V] are beyond the plain recursion."""
        logits = np.ascontiguousarray(logits, np.float32)
        return bool(
            self._library.ds2_ctc_uses_wide_range(
                pointer(logits),
                pointer(np.empty_like(logits)),
                *logits.shape,
                0,
                pointer(np.array(labels, np.int32)),
                len(labels),
                self.instruction_sets[-1],
            )
        )
