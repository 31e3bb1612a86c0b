"""Compiles native code for tests, and hands NumPy arrays to it."""

import ctypes
import hashlib
import pathlib
import subprocess
from collections.abc import Sequence

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
NATIVE = ROOT / "ds2_tf" / "native"
TESTS = ROOT / "tests" / "native"

SANITIZERS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

# g++ 12 is wrong about vector registers that it calls uninitialised, and notes an ABI of none.
_WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-maybe-uninitialized", "-Wno-psabi"]
_FLAGS = ["-std=c++17", "-fno-math-errno", *_WARNINGS, f"-I{ROOT}", "-pthread"]


def build(
    folder: pathlib.Path,
    output: str,
    sources: Sequence[pathlib.Path],
    flags: Sequence[str] = ("-O3", "-shared", "-fPIC"),
) -> pathlib.Path:
    """Returns folder/output, compiled from the sources unless it is there already.

    A part of the file's name tells what it was built from.
    """
    digest = hashlib.sha256(repr([_FLAGS, list(flags), output]).encode())
    included = (*NATIVE.glob("*.h"), *TESTS.glob("*.h"), *TESTS.glob("*.cc"))
    for path in sorted({*included, *sources}):
        digest.update(path.name.encode() + path.read_bytes())
    target = folder / f"{digest.hexdigest()[:16]}-{output}"
    if not target.exists():
        partial = target.with_suffix(".partial")
        subprocess.run(["g++", *_FLAGS, *flags, *sources, "-o", partial], check=True)
        partial.rename(target)
    return target


def pointer(array: np.ndarray | None) -> ctypes.c_void_p | None:
    """Returns a pointer to an array's memory, which lives as long as the pointer."""
    if array is None:
        return None
    array = np.ascontiguousarray(array)
    found = ctypes.c_void_p(array.ctypes.data)
    found.array = array  # type: ignore[attr-defined]
    return found
