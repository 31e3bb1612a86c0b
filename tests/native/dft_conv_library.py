"""Calls the native convolution with NumPy arrays; and a reference in float64.

Axes: B utterances, T frames, F frequency bins, C channels, N filters.
"""

import ctypes
import dataclasses
import pathlib

import numpy as np

from tests.native.compiled import NATIVE, pointer

SOURCES = [
    NATIVE / name
    for name in (
        "dft_conv.cc",
        "dft_conv_geometry.cc",
        "dft_conv_kernels.cc",
        "instruction_set.cc",
    )
]
_AVX512 = 2


def output_size(size: int, stride: int) -> int:
    """Returns the frames or bins that a stride leaves of so many."""
    return (size + stride - 1) // stride


@dataclasses.dataclass(frozen=True)
class Shape:
    """A convolution; kernel and stride are (time, frequency)."""

    batch: int
    time: int
    frequency: int
    channels: int
    filters: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)

    def x(self) -> tuple[int, int, int, int]:
        return self.batch, self.time, self.frequency, self.channels

    def weights(self) -> tuple[int, int, int, int]:
        return *self.kernel, self.channels, self.filters

    def y(self) -> tuple[int, int, int, int]:
        time = output_size(self.time, self.stride[0])
        return self.batch, time, output_size(self.frequency, self.stride[1]), self.filters


class DftConvLibrary:
    """The library, loaded."""

    def __init__(self, path: pathlib.Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._library.ds2_convolve.restype = ctypes.c_bool
        self._library.ds2_convolution_gradients.restype = ctypes.c_bool
        self._library.ds2_why_unsupported.restype = ctypes.c_char_p
        best = min(self._library.ds2_best_instruction_set(), _AVX512)
        self.instruction_sets = list(range(best + 1))

    def why_unsupported(self, shape: Shape) -> str | None:
        """Returns the reason, or None if the shape is supported."""
        reason = self._library.ds2_why_unsupported(pointer(_numbers(shape)))
        return None if reason is None else reason.decode()

    def forward(self, shape, x, lengths, kernel, *, instruction_set=None, num_threads=1):
        """Returns y [B, T', F', N]."""
        y = np.full(shape.y(), np.nan, np.float32)
        assert self._library.ds2_convolve(
            *self._first_arguments(shape, instruction_set, num_threads),
            *map(pointer, (x, lengths, kernel, y)),
        ), "the workspace did not suffice"
        return y

    def gradients(
        self,
        shape,
        x,
        lengths,
        kernel,
        y_gradient,
        *,
        of_x=True,
        of_kernel=True,
        instruction_set=None,
        num_threads=1,
    ):
        """Returns the gradients of x and kernel; None for those not asked for."""
        x_gradient = np.full(shape.x(), np.nan, np.float32) if of_x else None
        kernel_gradient = np.full(shape.weights(), np.nan, np.float32) if of_kernel else None
        arrays = (x, lengths, kernel, y_gradient, x_gradient, kernel_gradient)
        assert self._library.ds2_convolution_gradients(
            *self._first_arguments(shape, instruction_set, num_threads), *map(pointer, arrays)
        ), "the workspace did not suffice"
        return x_gradient, kernel_gradient

    def _first_arguments(self, shape, instruction_set, num_threads):
        chosen = self.instruction_sets[-1] if instruction_set is None else instruction_set
        return pointer(_numbers(shape)), ctypes.c_int32(chosen), ctypes.c_int32(num_threads)


def reference(shape, x, lengths, kernel, y_gradient):
    """Returns y and the gradients of x and kernel in float64, by definition."""
    time, frequency, stride_time, stride_frequency = *shape.kernel, *shape.stride
    pad_time, pad_frequency = (time - 1) // 2, (frequency - 1) // 2
    _, num_frames, num_bins, _ = shape.y()
    margins = [(0, 0), (pad_time, pad_time), (pad_frequency, pad_frequency), (0, 0)]
    padded = np.pad(_masked(x, lengths), margins)
    output_lengths = [output_size(length, stride_time) for length in lengths]
    outer = _masked(y_gradient, output_lengths)
    kernel = kernel.astype(np.float64)
    y = np.zeros(shape.y())
    padded_gradient = np.zeros(padded.shape)
    kernel_gradient = np.zeros(kernel.shape)
    for i, j in np.ndindex(time, frequency):
        view = (
            slice(None),
            slice(i, i + stride_time * (num_frames - 1) + 1, stride_time),
            slice(j, j + stride_frequency * (num_bins - 1) + 1, stride_frequency),
        )
        y += padded[view] @ kernel[i, j]
        padded_gradient[view] += outer @ kernel[i, j].T
        kernel_gradient[i, j] = np.einsum("btfc,btfn->cn", padded[view], outer)
    inner = padded_gradient[:, pad_time:, pad_frequency:][:, : shape.time, : shape.frequency]
    return _masked(y, output_lengths), _masked(inner, lengths), kernel_gradient


def _masked(values, lengths):
    """Returns a float64 copy with zeros past the lengths."""
    result = np.zeros(values.shape)
    for b, length in enumerate(lengths):
        result[b, :length] = values[b, :length]
    return result


def _numbers(shape):
    sizes = (shape.batch, shape.time, shape.frequency, shape.channels, shape.filters)
    return np.array([*sizes, *shape.kernel, *shape.stride], np.int64)
