"""Recurrent layers whose directions are summed."""

from typing import Any

import keras
import tensorflow as tf

from ds2_tf.layers import lengths as lengths_lib
from ds2_tf.layers.batch_norm import SequenceBatchNorm
from ds2_tf.ops import recurrence as recurrence_lib


@keras.saving.register_keras_serializable("ds2_tf")
class Recurrent(keras.layers.Layer):
    """h[t] = cell(B(W x[t]), U h[t - 1]), forward or in both directions.

    Both directions share W and the sequence-wise batch normalisation B; each has its own U, and
    their states are summed. Without batch normalisation a bias takes its place.

    Source: Deep Speech 2, sections 3.1 to 3.3.
    """

    def __init__(
        self,
        units: int,
        cell: str = "gru",
        bidirectional: bool = True,
        batch_norm: bool = True,
        batch_norm_momentum: float = 0.99,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if units < 1:
            raise ValueError(f"units must be >= 1. Received: {units}")
        if cell not in recurrence_lib.CELLS:
            raise ValueError(f"cell must be one of {(*recurrence_lib.CELLS,)}. Received: {cell!r}")
        self.units = units
        self.cell = cell
        self.bidirectional = bidirectional
        self.batch_norm = SequenceBatchNorm(batch_norm_momentum, name="bn") if batch_norm else None
        self.batch_norm_momentum = batch_norm_momentum

    def build(self, shape: tuple[int | None, ...], *_: Any) -> None:
        """Creates W [D, G], U [directions, H, G] and the bias [G] or the batch normalisation."""
        size = recurrence_lib.CELLS[self.cell].num_gates * self.units
        directions = 2 if self.bidirectional else 1
        self.kernel = self.add_weight((shape[-1], size), "glorot_uniform", name="kernel")
        self.recurrent_kernel = self.add_weight(
            (directions, self.units, size), _PerGateOrthogonal(), name="recurrent_kernel"
        )
        if self.batch_norm is None:
            self.bias = self.add_weight((size,), "zeros", name="bias")
        else:
            self.batch_norm.build((*shape[:-1], size))

    def call(self, x: tf.Tensor, lengths: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns the summed states [B, T, H], zero past each length.

        Args:
          x: [B, T, D].
          lengths: [B] int32; what lies past them is ignored, and the backward direction starts at
            each utterance's own last frame.
          training: whether batch normalisation takes the batch's statistics.
        """
        x = lengths_lib.mask_frames(x, lengths)
        projected = tf.matmul(x, tf.cast(self.kernel.value, x.dtype))
        if self.batch_norm is None:
            projected = lengths_lib.mask_frames(
                projected + tf.cast(self.bias.value, x.dtype), lengths
            )
        else:
            projected = self.batch_norm(projected, lengths, training=training)
        directions = [projected]
        if self.bidirectional:
            directions.append(tf.reverse_sequence(projected, lengths, seq_axis=1, batch_axis=0))
        states = recurrence_lib.recurrence(
            recurrence_lib.CELLS[self.cell],
            tf.transpose(tf.stack(directions), [2, 0, 1, 3]),
            tf.cast(self.recurrent_kernel.value, x.dtype),
        )
        states = tf.transpose(states, [1, 2, 0, 3])
        y = states[0]
        if self.bidirectional:
            y += tf.reverse_sequence(states[1], lengths, seq_axis=1, batch_axis=0)
        return lengths_lib.mask_frames(y, lengths)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "units": self.units,
            "cell": self.cell,
            "bidirectional": self.bidirectional,
            "batch_norm": self.batch_norm is not None,
            "batch_norm_momentum": self.batch_norm_momentum,
        }


class _PerGateOrthogonal(keras.initializers.Initializer):
    """Half an orthogonal matrix for each direction and gate: clipped ReLUs must not explode."""

    def __call__(self, shape: tuple[int, ...], dtype: Any = None) -> tf.Tensor:
        directions, units, size = shape
        orthogonal = keras.initializers.Orthogonal(gain=0.5)
        return tf.stack(
            [
                tf.concat(
                    [orthogonal((units, units), dtype) for _ in range(size // units)], axis=-1
                )
                for _ in range(directions)
            ]
        )
