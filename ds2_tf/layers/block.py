"""A linear layer with batch normalisation and non-linearity: one unit of the network."""

from typing import Any

import keras
import tensorflow as tf

from ds2_tf.layers import recomputation
from ds2_tf.layers.activation import clipped_relu
from ds2_tf.layers.batch_norm import SequenceBatchNorm
from ds2_tf.layers.sequence_layer import SequenceLayer, State


@keras.saving.register_keras_serializable("ds2_tf")
class Block(SequenceLayer):
    """y = f(B(layer(x))), B the sequence-wise batch normalisation, f the clipped ReLU.

    Source: Deep Speech 2, sections 3.1 and 3.2.
    """

    def __init__(
        self,
        layer: SequenceLayer,
        batch_norm: bool = True,
        batch_norm_momentum: float = 0.99,
        **kwargs: Any,
    ) -> None:
        """Creates the block.

        Args:
          layer: the linear layer.
          batch_norm: whether there is a B.
          batch_norm_momentum: weight of the past in its running averages.
          **kwargs: of every Keras layer.
        """
        super().__init__(**kwargs)
        self.layer = layer
        self.batch_norm_momentum = batch_norm_momentum
        self.batch_norm: SequenceBatchNorm | None = None
        if batch_norm:
            self.batch_norm = SequenceBatchNorm(
                batch_norm_momentum, name="bn", dtype=self.dtype_policy
            )

    @property
    def time_stride(self) -> int:
        """The layer's."""
        return self.layer.time_stride

    @property
    def lookahead_frames(self) -> int | None:
        """The layer's."""
        return self.layer.lookahead_frames

    def build(self, shape: tuple[int | None, ...], *_: Any) -> None:
        """Builds the parts."""
        if not self.layer.built:
            self.layer.build(shape)
        if self.batch_norm is not None:
            num_channels = self.layer.kernel.shape[-1]
            self.batch_norm.build((None, num_channels))

    def call(
        self, x: tf.Tensor, lengths: tf.Tensor, training: bool = False
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns y [B, T', ...], zero past each length, and the lengths [B] int32.

        Args:
          x: [B, T, ...].
          lengths: [B] int32; what lies past them is ignored.
          training: whether batch normalisation takes the batch's statistics.
        """
        output_lengths = self.layer.output_lengths(lengths)

        def compute(x: tf.Tensor) -> tf.Tensor:
            return self._activate(self.layer(x, lengths), output_lengths, training)

        return recomputation.apply(compute, x), output_lengths

    def _activate(self, y: tf.Tensor, lengths: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns f(B(y))."""
        if self.batch_norm is None:
            return clipped_relu(y)
        return self.batch_norm(y, lengths, training=training, clip=True)

    def start(self, batch_size: int | tf.Tensor) -> State:
        """Returns the layer's state."""
        return self.layer.start(batch_size)

    def step(
        self, x: tf.Tensor, lengths: tf.Tensor, state: State, final: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, State]:
        """Steps the layer."""
        y, lengths, state = self.layer.step(x, lengths, state, final)
        return self._activate(y, lengths), lengths, state

    def flops_per_frame(self) -> int:
        """Returns the layer's operations."""
        return self.layer.flops_per_frame()

    def output_values_per_frame(self) -> int:
        """Returns the layer's."""
        return self.layer.output_values_per_frame()

    def kept_values_per_frame(self) -> int:
        """Returns what the layer keeps and its output in all the forms that it goes through."""
        forms = 3 if self.batch_norm is None else self.batch_norm.kept_copies
        return self.layer.kept_values_per_frame() + forms * self.output_values_per_frame()

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "layer": keras.saving.serialize_keras_object(self.layer),
            "batch_norm": self.batch_norm is not None,
            "batch_norm_momentum": self.batch_norm_momentum,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Block":
        """Makes the block, its layer included."""
        layer = keras.saving.deserialize_keras_object(config["layer"])
        return cls(**{**config, "layer": layer})
