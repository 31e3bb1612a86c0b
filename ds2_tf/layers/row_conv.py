"""Row convolution: a forward-only model's small look-ahead."""

from typing import Any

import keras
import tensorflow as tf

from ds2_tf.layers import lengths as lengths_lib
from ds2_tf.layers.sequence_layer import SequenceLayer, State
from ds2_tf.layers.sliding_window import SlidingWindow


@keras.saving.register_keras_serializable("ds2_tf")
class RowConv(SequenceLayer):
    """r[t, i] = sum over j = 0..lookahead of W[j, i] h[t + j, i]: each unit i on its own.

    Frames past the end count as zeros.

    Source: Deep Speech 2, section 3.6 (lookahead is the paper's tau).
    """

    def __init__(self, lookahead: int, use_bias: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if lookahead < 1:
            raise ValueError(f"lookahead must be >= 1. Received: {lookahead}")
        self.lookahead = lookahead
        self.use_bias = use_bias
        self._window = SlidingWindow(lookahead + 1, after=lookahead)

    @property
    def lookahead_frames(self) -> int:
        """The lookahead."""
        return self.lookahead

    def build(self, shape: tuple[int | None, ...], *_: Any) -> None:
        """Creates the weights [lookahead + 1, H], which start as the average over the frames."""
        width = self.lookahead + 1
        self.kernel = self.add_weight(
            (width, shape[-1]), initializer=keras.initializers.Constant(1 / width), name="kernel"
        )
        if self.use_bias:
            self.bias = self.add_weight((shape[-1],), "zeros", name="bias")

    def call(self, x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Returns [B, T, H], zero past each length.

        Args:
          x: [B, T, H].
          lengths: [B] int32; what lies past them is ignored.
        """
        x = lengths_lib.mask_frames(x, lengths)
        padded = tf.pad(x, [[0, 0], [0, self.lookahead], [0, 0]])
        return lengths_lib.mask_frames(self._convolve(padded), lengths)

    def start(self, batch_size: int | tf.Tensor) -> State:
        """Returns the state of B streams: the frames that the next windows begin with."""
        frame = (self.kernel.shape[1],)
        return self._window.start(batch_size, frame, tf.as_dtype(self.compute_dtype))

    def step(
        self, x: tf.Tensor, lengths: tf.Tensor, state: State, final: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, State]:
        """Convolves every window that is complete."""
        frames, lengths, state = self._window.push(state, x, lengths, final)
        return lengths_lib.mask_frames(self._convolve(frames), lengths), lengths, state

    def _convolve(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the convolution [B, T - lookahead, H] of frames [B, T, H] alone."""
        y = tf.nn.depthwise_conv2d(
            x[:, :, tf.newaxis, :],
            tf.cast(self.kernel.value, x.dtype)[:, tf.newaxis, :, tf.newaxis],
            strides=[1, 1, 1, 1],
            padding="VALID",
        )
        y = y[:, :, 0, :]
        return y + tf.cast(self.bias.value, y.dtype) if self.use_bias else y

    def flops_per_frame(self) -> int:
        """Returns 2 (lookahead + 1) H."""
        return 2 * self.kernel.shape[0] * self.kernel.shape[1]

    def output_values_per_frame(self) -> int:
        """Returns H."""
        return self.kernel.shape[1]

    def kept_values_per_frame(self) -> int:
        """Returns 2 H, for the masked and the padded input."""
        return 2 * self.kernel.shape[1]

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "lookahead": self.lookahead, "use_bias": self.use_bias}
