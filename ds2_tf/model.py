"""Deep Speech 2: layers, functional graph, configuration."""

import dataclasses
from typing import Any

import keras
import tensorflow as tf

from ds2_tf.layers import lengths as lengths_lib
from ds2_tf.layers.activation import clipped_relu
from ds2_tf.layers.batch_norm import SequenceBatchNorm
from ds2_tf.layers.conv import SequenceConv2D
from ds2_tf.layers.recurrent import Recurrent
from ds2_tf.layers.row_conv import RowConv
from ds2_tf.ops.recurrence import CELLS


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The shape of a Deep Speech 2 network.

    Attributes:
      conv_channels: channels of each convolution layer.
      conv_kernels: (time, frequency) of each layer, odd.
      conv_strides: (time, frequency) of each layer.
      cell: "gru" or "rnn", both with the clipped ReLU.
      rnn_layers: recurrent layers.
      rnn_units: H, units of each direction.
      bidirectional: both directions, summed; or forward only.
      lookahead: frames of row convolution above the recurrent layers (tau); 0 for none.
      dense_layers: fully connected layers below the output.
      dense_units: their width.
      batch_norm: sequence-wise batch normalisation in every layer.
      batch_norm_momentum: weight of the past in the running averages.
      dropout: share of units dropped after each recurrent and dense layer, the same units in all
        frames of an utterance.
    """

    conv_channels: tuple[int, ...] = (32, 32)
    conv_kernels: tuple[tuple[int, int], ...] = ((11, 41), (11, 21))
    conv_strides: tuple[tuple[int, int], ...] = ((2, 2), (1, 2))
    cell: str = "gru"
    rnn_layers: int = 3
    rnn_units: int = 512
    bidirectional: bool = True
    lookahead: int = 0
    dense_layers: int = 0
    dense_units: int = 512
    batch_norm: bool = True
    batch_norm_momentum: float = 0.99
    dropout: float = 0.0

    def __post_init__(self) -> None:
        """Rejects shapes that contradict each other."""
        if not len(self.conv_channels) == len(self.conv_kernels) == len(self.conv_strides):
            raise ValueError(
                "conv_channels, conv_kernels and conv_strides must be equally long. Received: "
                f"{len(self.conv_channels)}, {len(self.conv_kernels)}, {len(self.conv_strides)}"
            )
        for name in ("rnn_layers", "rnn_units", "dense_units"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be >= 1. Received: {getattr(self, name)}")
        for name in ("lookahead", "dense_layers"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be >= 0. Received: {getattr(self, name)}")
        if self.cell not in CELLS:
            raise ValueError(f"cell must be one of {(*CELLS,)}. Received: {self.cell!r}")
        if any(size < 1 or size % 2 == 0 for kernel in self.conv_kernels for size in kernel):
            raise ValueError(f"conv_kernels must be odd. Received: {self.conv_kernels}")
        if min((*self.conv_channels, *sum(self.conv_strides, ())), default=1) < 1:
            raise ValueError(
                "conv_channels and conv_strides must be >= 1. Received: "
                f"{self.conv_channels}, {self.conv_strides}"
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1). Received: {self.dropout}")
        if self.lookahead and self.bidirectional:
            raise ValueError(
                "lookahead is for forward-only models; bidirectional ones hear all that follows. "
                f"Received: lookahead={self.lookahead}, bidirectional=True"
            )

    @property
    def time_stride(self) -> int:
        """Feature frames for each output frame."""
        stride = 1
        for time, _ in self.conv_strides:
            stride *= time
        return stride

    def num_output_frames(self, num_frames: int) -> int:
        """Returns T' for T feature frames."""
        for time, _ in self.conv_strides:
            num_frames = (num_frames + time - 1) // time
        return num_frames


class DeepSpeech2(keras.Model):
    """Spectrograms to logits: convolutions, recurrent layers, dense layers, output layer.

    Called with `{"features": [B, T, F] float32, "feature_lengths": [B] int32}` it returns
    `{"logits": [B, T', V] float32, "logit_lengths": [B] int32}`. What lies past an utterance's
    length has no influence.

    Source: Deep Speech 2, section 3 and figure 1.
    """

    def __init__(self, config: ModelConfig, num_bins: int, num_labels: int, **kwargs: Any) -> None:
        """Builds the network for F = num_bins and V = num_labels (blank included)."""
        features = keras.Input((None, num_bins), name="features")
        feature_lengths = keras.Input((), dtype="int32", name="feature_lengths")

        x, lengths = features, feature_lengths
        if config.conv_channels:
            x = keras.layers.Reshape((-1, num_bins, 1), name="as_image")(x)
            for i, channels in enumerate(config.conv_channels):
                conv = SequenceConv2D(
                    channels,
                    config.conv_kernels[i],
                    config.conv_strides[i],
                    use_bias=not config.batch_norm,
                    name=f"conv_{i}",
                )
                x, lengths = conv(x, lengths)
                x = _normalise_and_clip(x, lengths, config, f"conv_{i}")
            x = keras.layers.Reshape((-1, x.shape[2] * x.shape[3]), name="as_sequence")(x)
        for i in range(config.rnn_layers):
            x = Recurrent(
                config.rnn_units,
                config.cell,
                config.bidirectional,
                config.batch_norm,
                config.batch_norm_momentum,
                name=f"recurrent_{i}",
            )(x, lengths)
            x = _dropout(x, config, f"recurrent_{i}")
        if config.lookahead:
            x = RowConv(config.lookahead, name="row_conv")(x, lengths)
            x = _normalise_and_clip(x, lengths, config, "row_conv")
        for i in range(config.dense_layers):
            x = keras.layers.Dense(
                config.dense_units, use_bias=not config.batch_norm, name=f"dense_{i}"
            )(x)
            x = _normalise_and_clip(x, lengths, config, f"dense_{i}")
            x = _dropout(x, config, f"dense_{i}")
        logits = keras.layers.Dense(num_labels, dtype="float32", name="output")(x)

        super().__init__(
            inputs={"features": features, "feature_lengths": feature_lengths},
            outputs={"logits": logits, "logit_lengths": lengths},
            **kwargs,
        )


def _normalise_and_clip(x: Any, lengths: Any, config: ModelConfig, name: str) -> Any:
    if config.batch_norm:
        x = SequenceBatchNorm(config.batch_norm_momentum, name=f"{name}_bn")(x, lengths)
    return keras.layers.Activation(clipped_relu, name=f"{name}_clip")(x)


def _dropout(x: Any, config: ModelConfig, name: str) -> Any:
    if not config.dropout:
        return x
    same_in_all_frames = (None, 1, None)
    return keras.layers.Dropout(config.dropout, same_in_all_frames, name=f"{name}_dropout")(x)


def masked_log_probabilities(logits: tf.Tensor, logit_lengths: tf.Tensor) -> tf.Tensor:
    """Returns log-softmax [B, T', V] float32, zero past each length."""
    return lengths_lib.mask_frames(tf.nn.log_softmax(tf.cast(logits, tf.float32)), logit_lengths)
