"""Two-dimensional convolution over padded sequences."""

import math
from typing import Any

import keras
import tensorflow as tf

from ds2_tf.layers import lengths as lengths_lib
from ds2_tf.layers.sequence_layer import SequenceLayer, State
from ds2_tf.layers.sliding_window import SlidingWindow
from ds2_tf.ops.convolution import convolution


@keras.saving.register_keras_serializable("ds2_tf")
class SequenceConv2D(SequenceLayer):
    """Convolution over time and frequency whose result does not depend on the padding.

    (k - 1) // 2 zeros are padded explicitly on both sides of both axes, so an utterance of T
    frames gives (T - 1) // stride + 1 frames, alone or in any batch. A convolution over time alone
    (1D in the paper) has one frequency, whose channels are the bins.

    Source: Deep Speech 2, section 3.4.
    """

    def __init__(
        self,
        channels: int,
        kernel: tuple[int, int],
        stride: tuple[int, int] = (1, 1),
        use_bias: bool = False,
        input_gradient: bool = True,
        **kwargs: Any,
    ) -> None:
        """Creates the layer.

        Args:
          channels: of the output.
          kernel: (time, frequency), odd.
          stride: (time, frequency).
          use_bias: whether a bias is added.
          input_gradient: whether anything below needs the gradient of the input; saves its
            computation.
          **kwargs: of every Keras layer.
        """
        super().__init__(**kwargs)
        if any(size < 1 or size % 2 == 0 for size in kernel):
            raise ValueError(f"kernel sizes must be odd and >= 1. Received: {tuple(kernel)}")
        if any(size < 1 for size in stride):
            raise ValueError(f"strides must be >= 1. Received: {tuple(stride)}")
        self.channels = channels
        self.kernel_size = tuple(kernel)
        self.stride = (stride[0], stride[1])
        self.use_bias = use_bias
        self.input_gradient = input_gradient
        beside = (kernel[0] - 1) // 2
        self._window = SlidingWindow(kernel[0], stride[0], before=beside, after=beside)

    def build(self, shape: tuple[Any, ...], *_: Any) -> None:
        """Creates the kernel [time, frequency, C, channels]."""
        self._num_input_bins: int = shape[2]
        self._num_output_bins = (self._num_input_bins - 1) // self.stride[1] + 1
        self.kernel = self.add_weight(
            (*self.kernel_size, shape[-1], self.channels),
            initializer="glorot_uniform",
            name="kernel",
        )
        if self.use_bias:
            self.bias = self.add_weight((self.channels,), initializer="zeros", name="bias")

    @property
    def time_stride(self) -> int:
        """The stride over time."""
        return self.stride[0]

    @property
    def lookahead_frames(self) -> int:
        """Half the kernel."""
        return (self.kernel_size[0] - 1) // 2

    def call(self, x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Returns the convolved sequences [B, T', F', channels], zero past each length.

        Args:
          x: [B, T, F, C].
          lengths: [B] int32; what lies past them is ignored.
        """
        kernel = tf.cast(self.kernel.value, x.dtype)
        y = convolution(x, lengths, kernel, self.stride, self.input_gradient)
        if not self.use_bias:
            return y
        y += tf.cast(self.bias.value, y.dtype)
        return lengths_lib.mask_frames(y, self.output_lengths(lengths))

    def start(self, batch_size: int | tf.Tensor) -> State:
        """Returns the state of B streams: the frames that the next windows begin with."""
        frame = (self._num_input_bins, self.kernel.shape[2])
        return self._window.start(batch_size, frame, tf.as_dtype(self.compute_dtype))

    def step(
        self, x: tf.Tensor, lengths: tf.Tensor, state: State, final: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, State]:
        """Convolves every window that is complete."""
        frames, lengths, state = self._window.push(state, x, lengths, final)
        bins = (self.kernel_size[1] - 1) // 2
        y = tf.nn.conv2d(
            tf.pad(frames, [[0, 0], [0, 0], [bins, bins], [0, 0]]),
            tf.cast(self.kernel.value, x.dtype),
            strides=self.stride,
            padding="VALID",
        )
        if self.use_bias:
            y += tf.cast(self.bias.value, y.dtype)
        return lengths_lib.mask_frames(y, lengths), lengths, state

    def flops_per_frame(self) -> int:
        """Returns 2 k C channels F', k the kernel's size."""
        return 2 * math.prod(self.kernel.shape) * self._num_output_bins

    def output_values_per_frame(self) -> int:
        """Returns F' channels."""
        return self._num_output_bins * self.channels

    def kept_values_per_frame(self) -> int:
        """Returns the masked and the padded input, and the workspace of the gradients."""
        num_inputs = self.time_stride * self._num_input_bins * self.kernel.shape[2]
        return 2 * num_inputs + 4 * self.output_values_per_frame()

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "channels": self.channels,
            "kernel": self.kernel_size,
            "stride": self.stride,
            "use_bias": self.use_bias,
            "input_gradient": self.input_gradient,
        }
