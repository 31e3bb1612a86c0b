"""Recurrent layers whose directions are summed."""

import math
from typing import Any

import keras
import tensorflow as tf

from ds2_tf.layers import recomputation
from ds2_tf.layers.batch_norm import SequenceBatchNorm
from ds2_tf.layers.sequence_layer import SequenceLayer, State
from ds2_tf.ops.cells import CELLS
from ds2_tf.ops.projection import projection
from ds2_tf.ops.recurrence import recurrence


@keras.saving.register_keras_serializable("ds2_tf")
class Recurrent(SequenceLayer):
    """h[t] = cell(B(W x[t]), U h[t - 1]), forward or in both directions.

    Both directions share W and the sequence-wise batch normalisation B, unless `shared_input` is
    False; each has its own U, and their outputs are summed. Without batch normalisation a bias
    takes its place.

    Source: Deep Speech 2, sections 3.1 to 3.3.
    """

    def __init__(
        self,
        units: int,
        cell: str = "gru",
        bidirectional: bool = True,
        *,
        batch_norm: bool = True,
        batch_norm_momentum: float = 0.99,
        shared_input: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if units < 1:
            raise ValueError(f"units must be >= 1. Received: {units}")
        if cell not in CELLS:
            raise ValueError(f"cell must be one of {(*CELLS,)}. Received: {cell!r}")
        self.units = units
        self.cell = cell
        self.bidirectional = bidirectional
        self.batch_norm: SequenceBatchNorm | None = None
        if batch_norm:
            self.batch_norm = SequenceBatchNorm(
                batch_norm_momentum, name="bn", dtype=self.dtype_policy
            )
        self.batch_norm_momentum = batch_norm_momentum
        self.shared_input = shared_input

    @property
    def lookahead_frames(self) -> int | None:
        """0 forward only; all frames in both directions."""
        return None if self.bidirectional else 0

    def build(self, shape: tuple[int | None, ...], *_: Any) -> None:
        """Creates W, U [directions, H, G] and the bias or the batch normalisation of W's outputs.

        W is [D, G], or [D, directions * G] when the directions don't share it.
        """
        size = CELLS[self.cell].num_gates * self.units
        directions = 2 if self.bidirectional else 1
        projections = size if self.shared_input else size * directions
        self.kernel = self.add_weight((shape[-1], projections), "glorot_uniform", name="kernel")
        self.recurrent_kernel = self.add_weight(
            (directions, self.units, size), _PerGateOrthogonal(), name="recurrent_kernel"
        )
        if self.batch_norm is None:
            self.bias = self.add_weight((projections,), "zeros", name="bias")
        else:
            self.batch_norm.build((*shape[:-1], projections))

    def call(self, x: tf.Tensor, lengths: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns the summed outputs [B, T, H], zero past each length.

        Args:
          x: [B, T, D].
          lengths: [B] int32; what lies past them is ignored, and the backward direction starts at
            each utterance's own last frame.
          training: whether batch normalisation takes the batch's statistics.
        """

        def compute(x: tf.Tensor) -> tf.Tensor:
            return self._run(self._project(x, lengths, training), lengths)[0]

        return recomputation.apply(compute, x)

    def start(self, batch_size: int | tf.Tensor) -> State:
        """Returns the state of B streams: that of the cells."""
        size = CELLS[self.cell].num_states * self.units
        return {"cells": tf.zeros([batch_size, size], tf.as_dtype(self.compute_dtype))}

    def step(
        self, x: tf.Tensor, lengths: tf.Tensor, state: State, final: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, State]:
        """Runs the recurrence on from where it was."""
        del final
        if self.bidirectional:
            raise ValueError(f"{self.name} is bidirectional and cannot run on a stream")
        projected = self._project(x, lengths, training=False)
        y, cells = self._run(projected, lengths, state["cells"][tf.newaxis])
        return y, lengths, {"cells": cells[0]}

    def _project(self, x: tf.Tensor, lengths: tf.Tensor, training: bool) -> tf.Tensor:
        """Returns B(W x) [B, T, projections]."""
        kernel = tf.cast(self.kernel.value, x.dtype)
        if self.batch_norm is None:
            return projection(x, lengths, kernel, tf.cast(self.bias.value, x.dtype))
        return self.batch_norm(projection(x, lengths, kernel), lengths, training=training)

    def _run(
        self, projected: tf.Tensor, lengths: tf.Tensor, initial: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the outputs of the recurrences over B(W x), summed, and their last states."""
        weights = tf.cast(self.recurrent_kernel.value, projected.dtype)
        return recurrence(self.cell, projected, weights, lengths, initial)

    def flops_per_frame(self) -> int:
        """Returns the operations of W and of each direction's U."""
        return 2 * (math.prod(self.kernel.shape) + math.prod(self.recurrent_kernel.shape))

    def output_values_per_frame(self) -> int:
        """Returns H."""
        return self.units

    def kept_values_per_frame(self) -> int:
        """Returns the input, its projections in all their forms, and what each direction keeps."""
        cell = CELLS[self.cell]
        num_inputs, num_projections = self.kernel.shape
        forms = 2 if self.batch_norm is None else self.batch_norm.kept_copies
        each_direction = cell.num_gates + cell.num_states + cell.num_coefficients
        directions = self.recurrent_kernel.shape[0]
        return num_inputs + forms * num_projections + directions * each_direction * self.units

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "units": self.units,
            "cell": self.cell,
            "bidirectional": self.bidirectional,
            "batch_norm": self.batch_norm is not None,
            "batch_norm_momentum": self.batch_norm_momentum,
            "shared_input": self.shared_input,
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
