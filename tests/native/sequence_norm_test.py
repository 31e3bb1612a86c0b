"""Tests the kernels of batch normalisation against float64, for each instruction set."""

import ctypes

import numpy as np
import pytest
import tensorflow as tf

from tests.native.compiled import NATIVE, TESTS, build, pointer

_AVX512 = 2
ROWS = 37
CHANNELS = [1, 3, 16, 23, 32, 1024]
TYPES = {"float": (np.float32, 1e-5), "bfloat16": (tf.bfloat16.as_numpy_dtype, 1e-2)}


@pytest.fixture(scope="session")
def library(native_folder):
    names = ("sequence_norm_kernels.cc", "instruction_set.cc")
    sources = [*(NATIVE / name for name in names), TESTS / "sequence_norm_c_api.cc"]
    return ctypes.CDLL(str(build(native_folder, "libsequencenorm.so", sources)))


def reference(x, by_y, scale, shift, clip):
    """Returns mean, squares, y, sum, centred_sum and by_x in float64."""
    x, by_y, scale, shift = (a.astype(np.float64) for a in (x, by_y, scale, shift))
    mean = x.mean(0)
    squares = ((x - mean) ** 2).sum(0)
    z = x * scale + shift
    g = np.where((z < 0) | (z > 20), 0, by_y) if clip else by_y
    y = np.clip(z, 0, 20) if clip else z
    return mean, squares, y, g.sum(0), (g * (x - mean)).sum(0), g * scale + x * mean + squares


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("channels", CHANNELS)
def test_kernels(library, channels, name, clip):
    dtype, tolerance = TYPES[name]
    generator = np.random.default_rng(channels)
    x, by_y = generator.normal(3, 5, (2, ROWS, channels)).astype(np.float32).astype(dtype)
    scale, shift = generator.normal(2, 2, (2, channels)).astype(np.float32)
    expected = reference(x, by_y, scale, shift, clip)
    for chosen in range(min(library.ds2_best_instruction_set(), _AVX512) + 1):
        found = [np.full(channels, np.nan, np.float32) for _ in range(6)]
        found[2], found[5] = (np.zeros((ROWS, channels), dtype) for _ in range(2))
        sizes = (ctypes.c_int32(chosen), ctypes.c_int64(ROWS), ctypes.c_int64(channels))
        getattr(library, f"ds2_norm_{name}")(
            *sizes,
            pointer(scale),
            pointer(shift),
            ctypes.c_bool(clip),
            *map(pointer, (x, by_y, *found)),
        )
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(
                ours.astype(np.float64), theirs, rtol=0, atol=tolerance * np.abs(theirs).max()
            )


@pytest.mark.parametrize("name", TYPES)
def test_nan_stays_nan(library, name):
    dtype, _ = TYPES[name]
    x, by_y, y, by_x = (np.full((1, 5), np.nan).astype(dtype) for _ in range(4))
    scale, shift, *sums = np.ones((6, 5), np.float32)
    for chosen in range(min(library.ds2_best_instruction_set(), _AVX512) + 1):
        y[:] = 1
        getattr(library, f"ds2_norm_{name}")(
            ctypes.c_int32(chosen),
            ctypes.c_int64(1),
            ctypes.c_int64(5),
            pointer(scale),
            pointer(shift),
            ctypes.c_bool(True),
            *map(pointer, (x, by_y, *sums[:2], y, *sums[2:], by_x)),
        )
        assert np.isnan(y.astype(np.float32)).all()
