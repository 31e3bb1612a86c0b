"""Two-dimensional convolution over padded sequences."""

from typing import Any

import keras
import tensorflow as tf

from ds2_tf.layers import lengths as lengths_lib


@keras.saving.register_keras_serializable("ds2_tf")
class SequenceConv2D(keras.layers.Layer):
    """Convolution over time and frequency whose result does not depend on the padding.

    (k - 1) // 2 zeros are padded explicitly on both sides of both axes, so an utterance of T
    frames gives (T - 1) // stride + 1 frames, alone or in any batch. There is no bias: batch
    normalisation follows.

    Source: Deep Speech 2, section 3.4.
    """

    def __init__(
        self,
        channels: int,
        kernel: tuple[int, int],
        stride: tuple[int, int] = (1, 1),
        use_bias: bool = False,
        **kwargs: Any,
    ) -> None:
        """Creates the layer; kernel and stride are (time, frequency)."""
        super().__init__(**kwargs)
        if any(size < 1 or size % 2 == 0 for size in kernel):
            raise ValueError(f"kernel sizes must be odd and >= 1. Received: {tuple(kernel)}")
        if any(size < 1 for size in stride):
            raise ValueError(f"strides must be >= 1. Received: {tuple(stride)}")
        self.channels = channels
        self.kernel_size = tuple(kernel)
        self.stride = tuple(stride)
        self.use_bias = use_bias

    def build(self, shape: tuple[int | None, ...], *_: Any) -> None:
        """Creates the kernel [time, frequency, C, channels]."""
        self.kernel = self.add_weight(
            (*self.kernel_size, shape[-1], self.channels),
            initializer="glorot_uniform",
            name="kernel",
        )
        if self.use_bias:
            self.bias = self.add_weight((self.channels,), initializer="zeros", name="bias")

    def call(self, x: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the convolved sequences [B, T', F', channels] and their lengths [B].

        Args:
          x: [B, T, F, C].
          lengths: [B] int32; what lies past them is ignored.
        """
        x = lengths_lib.mask_frames(x, lengths)
        time, frequency = ((size - 1) // 2 for size in self.kernel_size)
        y = tf.nn.conv2d(
            tf.pad(x, [[0, 0], [time, time], [frequency, frequency], [0, 0]]),
            tf.cast(self.kernel.value, x.dtype),
            strides=self.stride,
            padding="VALID",
        )
        if self.use_bias:
            y += tf.cast(self.bias.value, y.dtype)
        lengths = lengths_lib.strided(lengths, self.stride[0])
        return lengths_lib.mask_frames(y, lengths), lengths

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "channels": self.channels,
            "kernel": self.kernel_size,
            "stride": self.stride,
            "use_bias": self.use_bias,
        }
