"""Loads the native operations once, and tells which may be used.

On CPUs all of them are. Where TensorFlow sees a GPU those that have a kernel for it are, which is
CTC's alone; the rest would run on the CPU in the middle of a GPU's work.
"""

import contextlib
import contextvars
import ctypes
import functools
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging

from ds2_tf.native import build

_portable: contextvars.ContextVar[bool] = contextvars.ContextVar("portable", default=False)
_lite: contextvars.ContextVar[bool] = contextvars.ContextVar("lite", default=False)


def load(has_gpu_kernel: bool = False) -> Any:
    """Returns the module of native operations, or None where TensorFlow's own must do.

    That is within `portable`, where TensorFlow sees a GPU unless the operation has a kernel for it
    that can run, and when they cannot be built. The log says which run and why, once. Everything
    works without them, slower.

    Args:
      has_gpu_kernel: whether the operation that is wanted can run on GPUs, compiled with CUDA.
    """
    if _portable.get():
        return None
    if _sees_gpu():
        _tell_what_runs_on_gpus()
        return _library().on_gpus if has_gpu_kernel else None
    return _library().on_cpus


@contextlib.contextmanager
def portable(lite: bool = False) -> Iterator[None]:
    """Within it graphs get TensorFlow's own operations only, to run wherever TensorFlow does.

    Args:
      lite: in the forms that LiteRT (TensorFlow Lite) can run and quantize.
    """
    tokens = _portable.set(True), _lite.set(lite)
    try:
        yield
    finally:
        _portable.reset(tokens[0])
        _lite.reset(tokens[1])


def is_lite() -> bool:
    """Whether the graph being made must run on LiteRT; see `portable`."""
    return _lite.get()


class _Library(NamedTuple):
    """The operations for each kind of device, or None."""

    on_cpus: Any
    on_gpus: Any


def _sees_gpu() -> bool:
    return bool(tf.config.get_visible_devices("GPU"))


@functools.cache
def _tell_what_runs_on_gpus() -> None:
    logging.info("there is a GPU: TensorFlow's own operations run, natively CTC alone if it can")


@functools.cache
def _library() -> _Library:
    # A process loads one library only: two would register the same operations.
    cuda = _sees_gpu()
    subject = "native CTC is not used on the GPU" if cuda else "native operations are not used"
    try:
        path = build.library(cuda)
        operations = tf.load_op_library(str(path))
    except (build.BuildError, tf.errors.NotFoundError) as error:
        logging.warning("%s, TensorFlow's %s: %s", subject, "is" if cuda else "are", error)
        return _Library(None, None)
    if not cuda:
        logging.info("native operations: %s", path)
        return _Library(operations, None)
    if problem := _cuda_problem(path):
        logging.warning("%s, TensorFlow's is: %s (%s)", subject, problem, path)
        return _Library(operations, None)
    logging.info("native CTC on the GPU: %s", path)
    return _Library(operations, operations)


def _cuda_problem(path: pathlib.Path) -> str:
    """Returns why a loaded library's kernels cannot run on the GPU, as CUDA says it."""
    ask = ctypes.CDLL(str(path)).ds2_cuda_problem
    ask.restype = ctypes.c_char_p
    return (ask() or b"").decode()
