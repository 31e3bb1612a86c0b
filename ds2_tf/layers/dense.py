"""A fully connected layer over the frames of padded sequences."""

from typing import Any

import keras
import tensorflow as tf

from ds2_tf.layers.sequence_layer import SequenceLayer
from ds2_tf.ops.projection import projection


@keras.saving.register_keras_serializable("ds2_tf")
class SequenceDense(SequenceLayer):
    """y[t] = W x[t] + b, the bias only on demand.

    Source: Deep Speech 2, section 3.1.
    """

    def __init__(self, units: int, use_bias: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if units < 1:
            raise ValueError(f"units must be >= 1. Received: {units}")
        self.units = units
        self.use_bias = use_bias

    def build(self, shape: tuple[int | None, ...], *_: Any) -> None:
        """Creates the weights W [D, units] and the bias [units]."""
        self.kernel = self.add_weight((shape[-1], self.units), "glorot_uniform", name="kernel")
        if self.use_bias:
            self.bias = self.add_weight((self.units,), "zeros", name="bias")

    def call(self, x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Returns [B, T, units], zero past each length.

        Args:
          x: [B, T, D].
          lengths: [B] int32; what lies past them is ignored.
        """
        bias = tf.cast(self.bias.value, x.dtype) if self.use_bias else None
        return projection(x, lengths, tf.cast(self.kernel.value, x.dtype), bias)

    def flops_per_frame(self) -> int:
        """Returns 2 D units."""
        return 2 * self.kernel.shape[0] * self.kernel.shape[1]

    def output_values_per_frame(self) -> int:
        """Returns the units."""
        return self.units

    def kept_values_per_frame(self) -> int:
        """Returns D, for the masked input."""
        return self.kernel.shape[0]

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "units": self.units, "use_bias": self.use_bias}
