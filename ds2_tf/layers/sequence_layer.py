"""What all layers over padded sequences have in common."""

from typing import TypeAlias

import keras
import tensorflow as tf

from ds2_tf.layers import lengths as lengths_lib

# What a layer keeps of B streams between two steps: tensors [B, ...] by name.
State: TypeAlias = dict[str, tf.Tensor]


class SequenceLayer(keras.layers.Layer):
    """A layer whose result for an utterance depends on its valid frames alone.

    `call(x [B, T, ...], lengths [B])` returns y [B, T', ...], zero past each utterance's own T' =
    (T - 1) // time_stride + 1. `start` and `step` compute the same piece by piece, as the frames
    come; a layer that needs no other frames than its own has nothing to keep.
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

    def start(self, batch_size: int | tf.Tensor) -> State:
        """Returns the state of B streams of which nothing has come, once built."""
        del batch_size
        return {}

    def step(
        self, x: tf.Tensor, lengths: tf.Tensor, state: State, final: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, State]:
        """Takes the next frames of B streams, and returns all of the output that they allow.

        The outputs of all steps together are those of `call` for the whole streams. Each row may
        bring as many frames as it has, even none, and end when it ends. Inference only.

        Args:
          x: [B, T, ...], the new frames; what lies past the lengths is ignored.
          lengths: [B] int32.
          state: from `start` or the last step.
          final: [B] bool, which streams end; None if none does.

        Returns:
          y [B, T', ...] with any T', zero past each length; its lengths [B] int32; the new state.
          That of a stream that ended is of no use.

        Raises:
          ValueError: when the layer hears all that follows, as bidirectional ones do.
        """
        del final
        return self(x, lengths), lengths, state

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
