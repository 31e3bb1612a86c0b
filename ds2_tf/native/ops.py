"""Loads the native operations once, and tells when there are none."""

import contextlib
import contextvars
import functools
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from absl import logging

from ds2_tf.native import build

_portable: contextvars.ContextVar[bool] = contextvars.ContextVar("portable", default=False)


def load() -> Any:
    """Returns the module of native operations, or None where TensorFlow's own must do.

    That is within `portable`, and when they cannot be built; the log says why, once. Everything
    works without them, slower.
    """
    return None if _portable.get() else _library()


@contextlib.contextmanager
def portable() -> Iterator[None]:
    """Within it graphs get TensorFlow's own operations only, to run wherever TensorFlow does."""
    token = _portable.set(True)
    try:
        yield
    finally:
        _portable.reset(token)


@functools.cache
def _library() -> Any:
    try:
        path = build.library()
        operations = tf.load_op_library(str(path))
    except (build.BuildError, tf.errors.NotFoundError) as error:
        logging.warning("native operations are not used, TensorFlow's are: %s", error)
        return None
    logging.info("native operations: %s", path)
    return operations
