"""Deep Speech 2: layers, functional graph, configuration."""

import dataclasses
from typing import Any

import keras
import tensorflow as tf

from ds2_tf.layers import lengths as lengths_lib
from ds2_tf.layers.block import Block
from ds2_tf.layers.conv import SequenceConv2D
from ds2_tf.layers.dense import SequenceDense
from ds2_tf.layers.recurrent import Recurrent
from ds2_tf.layers.row_conv import RowConv
from ds2_tf.layers.sequence_layer import SequenceLayer, State
from ds2_tf.native import ops as native
from ds2_tf.ops.cells import CELLS

POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The shape of a Deep Speech 2 network.

    Attributes:
      conv_dims: 2 to convolve over time and frequency; 1 over time alone, the bins as channels.
      conv_channels: channels of each convolution layer.
      conv_kernels: (time, frequency) of each layer, odd; the frequency is 1 if conv_dims is 1.
      conv_strides: (time, frequency) of each layer.
      cell: "rnn" or "gru", both with the clipped ReLU, or "lstm".
      rnn_layers: recurrent layers.
      rnn_units: H, units of each direction.
      bidirectional: both directions, summed; or forward only.
      shared_input: whether both directions share their input weights, as in the paper.
      lookahead: frames of row convolution above the recurrent layers (tau); 0 for none.
      dense_layers: fully connected layers below the output.
      dense_units: their width.
      batch_norm: sequence-wise batch normalisation in every layer.
      batch_norm_momentum: weight of the past in the running averages.
      dropout: share of units dropped after each recurrent and dense layer, the same units in all
        frames of an utterance.
    """

    conv_dims: int = 2
    conv_channels: tuple[int, ...] = (32, 32)
    conv_kernels: tuple[tuple[int, int], ...] = ((11, 41), (11, 21))
    conv_strides: tuple[tuple[int, int], ...] = ((2, 2), (1, 2))
    cell: str = "gru"
    rnn_layers: int = 3
    rnn_units: int = 512
    bidirectional: bool = True
    shared_input: bool = True
    lookahead: int = 0
    dense_layers: int = 0
    dense_units: int = 512
    batch_norm: bool = True
    batch_norm_momentum: float = 0.99
    dropout: float = 0.0

    def __post_init__(self) -> None:
        """Rejects shapes that contradict each other."""
        self._check_convolutions()
        for name in ("rnn_layers", "rnn_units", "dense_units"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be >= 1. Received: {getattr(self, name)}")
        for name in ("lookahead", "dense_layers"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be >= 0. Received: {getattr(self, name)}")
        if self.cell not in CELLS:
            raise ValueError(f"cell must be one of {(*CELLS,)}. Received: {self.cell!r}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1). Received: {self.dropout}")
        if self.lookahead and self.bidirectional:
            raise ValueError(
                "lookahead is for forward-only models; bidirectional ones hear all that follows. "
                f"Received: lookahead={self.lookahead}, bidirectional=True"
            )

    def _check_convolutions(self) -> None:
        if not len(self.conv_channels) == len(self.conv_kernels) == len(self.conv_strides):
            raise ValueError(
                "conv_channels, conv_kernels and conv_strides must be equally long. Received: "
                f"{len(self.conv_channels)}, {len(self.conv_kernels)}, {len(self.conv_strides)}"
            )
        if self.conv_dims not in (1, 2):
            raise ValueError(f"conv_dims must be 1 or 2. Received: {self.conv_dims}")
        frequencies = {size for _, size in (*self.conv_kernels, *self.conv_strides)}
        if self.conv_dims == 1 and frequencies - {1}:
            raise ValueError(
                "with conv_dims=1 kernels and strides are (time, 1). Received: "
                f"{self.conv_kernels}, {self.conv_strides}"
            )
        if any(size < 1 or size % 2 == 0 for kernel in self.conv_kernels for size in kernel):
            raise ValueError(f"conv_kernels must be odd. Received: {self.conv_kernels}")
        if min((*self.conv_channels, *sum(self.conv_strides, ())), default=1) < 1:
            raise ValueError(
                "conv_channels and conv_strides must be >= 1. Received: "
                f"{self.conv_channels}, {self.conv_strides}"
            )
        sizes = zip(sum(self.conv_kernels, ()), sum(self.conv_strides, ()), strict=True)
        if any(kernel < stride for kernel, stride in sizes):
            raise ValueError(
                "a kernel smaller than its stride would leave out frames or bins. Received: "
                f"conv_kernels={self.conv_kernels}, conv_strides={self.conv_strides}"
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

    def __init__(
        self,
        config: ModelConfig,
        num_bins: int,
        num_labels: int,
        precision: str = "float32",
        **kwargs: Any,
    ) -> None:
        """Builds the network.

        Args:
          config: its shape.
          num_bins: F.
          num_labels: V, blank included.
          precision: of the activations: "float32", "bfloat16" or "float16". Weights, statistics and
            logits are float32 anyway.
          **kwargs: of every Keras model.
        """
        dtype = POLICIES[precision]
        features = keras.Input((None, num_bins), name="features")
        feature_lengths = keras.Input((), dtype="int32", name="feature_lengths")

        def block(layer: SequenceLayer, name: str) -> Block:
            return Block(
                layer, config.batch_norm, config.batch_norm_momentum, name=name, dtype=dtype
            )

        def dropout(x: Any, name: str) -> Any:
            if not config.dropout:
                return x
            same_in_all_frames = (None, 1, None)
            name = f"{name}_dropout"
            return keras.layers.Dropout(config.dropout, same_in_all_frames, name=name, dtype=dtype)(
                x
            )

        linear: dict[str, Any] = {
            "use_bias": not config.batch_norm,
            "name": "linear",
            "dtype": dtype,
        }
        x, lengths = features, feature_lengths
        if config.conv_channels:
            image = (-1, num_bins, 1) if config.conv_dims == 2 else (-1, 1, num_bins)
            x = keras.layers.Reshape(image, name="as_image", dtype=dtype)(x)
            for i, channels in enumerate(config.conv_channels):
                kernel, stride = config.conv_kernels[i], config.conv_strides[i]
                conv = SequenceConv2D(channels, kernel, stride, input_gradient=i > 0, **linear)
                x, lengths = block(conv, f"conv_{i}")(x, lengths)
            flat = (-1, x.shape[2] * x.shape[3])
            x = keras.layers.Reshape(flat, name="as_sequence", dtype=dtype)(x)
        for i in range(config.rnn_layers):
            x = Recurrent(
                config.rnn_units,
                config.cell,
                config.bidirectional,
                batch_norm=config.batch_norm,
                batch_norm_momentum=config.batch_norm_momentum,
                shared_input=config.shared_input,
                name=f"recurrent_{i}",
                dtype=dtype,
            )(x, lengths)
            x = dropout(x, f"recurrent_{i}")
        if config.lookahead:
            x, lengths = block(RowConv(config.lookahead, **linear), "row_conv")(x, lengths)
        for i in range(config.dense_layers):
            dense = SequenceDense(config.dense_units, **linear)
            x, lengths = block(dense, f"dense_{i}")(x, lengths)
            x = dropout(x, f"dense_{i}")
        output = SequenceDense(num_labels, use_bias=True, name="output", dtype="float32")
        logits = output(x, lengths)

        super().__init__(
            inputs={"features": features, "feature_lengths": feature_lengths},
            outputs={"logits": logits, "logit_lengths": lengths},
            **kwargs,
        )
        self.num_bins = num_bins

    @property
    def sequence_layers(self) -> list[SequenceLayer]:
        """The layers with weights, from the features to the logits."""
        return [layer for layer in self.layers if isinstance(layer, SequenceLayer)]

    @property
    def lookahead_frames(self) -> int | None:
        """Feature frames after its own that an output frame depends on; None for all of them."""
        total, stride = 0, 1
        for layer in self.sequence_layers:
            if layer.lookahead_frames is None:
                return None
            total += layer.lookahead_frames * stride
            stride *= layer.time_stride
        return total

    def start(self, batch_size: int | tf.Tensor) -> dict[str, State]:
        """Returns the states of all layers, by name, for B streams of which nothing has come."""
        return {layer.name: layer.start(batch_size) for layer in self.sequence_layers}

    def step(
        self,
        features: tf.Tensor,
        lengths: tf.Tensor,
        state: dict[str, State],
        final: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor, dict[str, State]]:
        """Takes the next frames of B streams, and returns the logits that they allow.

        The logits of all steps together are those of a call for the whole streams. Inference only.

        Args:
          features: [B, T, F] float32; what lies past the lengths is ignored.
          lengths: [B] int32, as many frames as each stream brings, even none.
          state: from `start` or the last step.
          final: [B] bool, which streams end; None if none does.

        Returns:
          logits [B, T', V] float32, their lengths [B] int32, and the new state.

        Raises:
          ValueError: for a bidirectional network.
        """
        x, new_state = features, {}
        for layer in self.layers:
            if isinstance(layer, SequenceLayer):
                with tf.name_scope(layer.name):
                    x, lengths, new_state[layer.name] = layer.step(
                        tf.cast(x, layer.compute_dtype), lengths, state[layer.name], final
                    )
            elif isinstance(layer, keras.layers.Reshape):
                # Unlike the layer itself, for no frame at all, too.
                x = tf.reshape(x, [*tf.unstack(tf.shape(x)[:2]), *layer.target_shape[1:]])
        return x, lengths, new_state


def masked_log_probabilities(logits: tf.Tensor, logit_lengths: tf.Tensor) -> tf.Tensor:
    """Returns log-softmax [B, T', V] float32, zero past each length."""
    logits = tf.cast(logits, tf.float32)
    if native.is_lite():
        # Its quantizer would round a log-softmax to sixteenths, and a maximum of the logits would
        # get them the scale of their maximum.
        shifted = logits + tf.reduce_min(-logits, axis=-1, keepdims=True)
        log_probs = shifted - tf.math.log(tf.reduce_sum(tf.exp(shifted), axis=-1, keepdims=True))
    else:
        log_probs = tf.nn.log_softmax(logits)
    return lengths_lib.mask_frames(log_probs, logit_lengths)
