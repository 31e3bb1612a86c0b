"""What all layers over padded sequences have in common."""

import keras
import tensorflow as tf

from ds2_tf.layers import lengths as lengths_lib


class SequenceLayer(keras.layers.Layer):
    """A layer whose result for an utterance depends on its valid frames alone.

    `call(x [B, T, ...], lengths [B])` returns y [B, T', ...], zero past each utterance's own T' =
    (T - 1) // time_stride + 1.
    """

    @property
    def time_stride(self) -> int:
        """Frames of the input for each frame of the output."""
        return 1

    @property
    def lookahead_frames(self) -> int | None:
        """Frames of the input after its own that an output frame depends on; None for all."""
        return 0

    def output_lengths(self, lengths: tf.Tensor) -> tf.Tensor:
        """Returns the valid frames [B] int32 of the output, given those of the input."""
        return lengths_lib.strided(lengths, self.time_stride)

    def flops_per_frame(self) -> int:
        """Returns the floating-point operations for one frame of the output, once built.

        Products of matrices and kernels only, a multiplication and an addition counted as two.
        """
        raise NotImplementedError

    def output_values_per_frame(self) -> int:
        """Returns the size of one frame of the output, once built."""
        raise NotImplementedError

    def kept_values_per_frame(self) -> int:
        """Returns how many values training keeps for the gradient, for one frame of the output.

        An estimate; see `memory`.
        """
        raise NotImplementedError
