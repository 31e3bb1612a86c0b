"""The weights of an exported model, stored in the type that its file shall have."""

import contextlib
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from ds2_tf import checkpoint
from ds2_tf.errors import UserError

DTYPES = ("float32", "float16", "bfloat16")


class StoredWeights(tf.Module):
    """A copy of a network's weights, which its graphs read instead of the network's own.

    Matrices and kernels have the type that was asked for, and are widened to float32 each time a
    graph runs; so all computing is float32. Vectors (biases, statistics), a hundredth of all, stay
    float32: their range would not fit float16 always.
    """

    def __init__(self, network: keras.Model, dtype: str = "float32") -> None:
        """Copies the weights.

        Args:
          network: whose weights are copied.
          dtype: one of DTYPES.

        Raises:
          UserError: when a weight is too large for float16.
        """
        super().__init__(name="stored_weights")
        if dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {DTYPES}. Received: {dtype!r}")
        arrays = checkpoint.model_arrays(network)
        self._sources = {name: v for name, v in arrays.items() if v.dtype == "float32"}
        self.variables_by_name = {
            name: _stored(name, source.numpy(), dtype) for name, source in self._sources.items()
        }

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Within it, while a graph is traced, the network reads the stored weights."""
        widened = [
            (source, tf.cast(self.variables_by_name[name], tf.float32))
            for name, source in self._sources.items()
        ]
        with keras.StatelessScope(state_mapping=widened):
            yield


def _stored(name: str, value: np.ndarray, dtype: str) -> tf.Variable:
    if value.ndim < 2:
        return tf.Variable(value)
    largest = np.abs(value).max(initial=0.0)
    if largest > tf.as_dtype(dtype).max:
        raise UserError(
            f"{name}: holds {largest:.3g}, which is too large for {dtype}; export with "
            "--dtype=bfloat16"
        )
    return tf.Variable(tf.cast(value, dtype))
