"""A stream of frames cut into overlapping windows, whatever the pieces in which it comes."""

import tensorflow as tf

from ds2_tf.layers import lengths as lengths_lib
from ds2_tf.layers.sequence_layer import State


class SlidingWindow:
    """Windows of `size` frames, each `stride` after the last: what convolutions and spectra share.

    `before` and `after` frames of zeros stand around the stream. Each row of a batch is a stream of
    its own: it brings as many frames as it has, and ends when it ends.
    """

    def __init__(self, size: int, stride: int = 1, before: int = 0, after: int = 0) -> None:
        if not 1 <= stride <= size or not 0 <= before < size or not 0 <= after < size:
            raise ValueError(
                "size must be >= stride >= 1 and > before, after >= 0. "
                f"Received: size={size}, stride={stride}, before={before}, after={after}"
            )
        self.size = size
        self.stride = stride
        self.before = before
        self.after = after

    def start(self, batch_size: int | tf.Tensor, frame: tuple[int, ...], dtype: tf.DType) -> State:
        """Returns the state of B streams of which nothing has come.

        Args:
          batch_size: B.
          frame: the shape of a frame.
          dtype: of the frames.
        """
        return {
            "frames": tf.zeros([batch_size, self.size - 1, *frame], dtype),
            "count": tf.fill([batch_size], self.before),
        }

    def push(
        self, state: State, x: tf.Tensor, lengths: tf.Tensor, final: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor, State]:
        """Adds frames to the streams.

        Args:
          state: from `start` or the last `push`: "frames" [B, size - 1, ...] that later windows
            need, of which the first "count" [B] int32 are valid.
          x: [B, T, ...], the new frames; what lies past the lengths is ignored.
          lengths: [B] int32.
          final: [B] bool, which streams end; None if none does.

        Returns:
          frames [B, T + K, ...], of which those of window w begin at w * stride; the number of
          complete windows [B] int32, which no later `push` returns again; the new state.
        """
        kept = self.size - 1
        x = lengths_lib.mask_frames(x, lengths)
        if final is not None and self.after:
            x = tf.pad(x, [[0, 0], [0, self.after], *[[0, 0]] * (x.shape.rank - 2)])
            lengths += tf.where(final, self.after, 0)
        held, total = state["count"], state["count"] + lengths
        frames = tf.concat([state["frames"], x], axis=1)
        position = tf.range(tf.shape(frames)[1])[tf.newaxis, :]
        skip_unused = tf.where(position < held[:, tf.newaxis], 0, kept - held[:, tf.newaxis])
        frames = _take(frames, position + skip_unused)
        num_windows = tf.maximum(0, total - self.size + self.stride) // self.stride
        used = num_windows * self.stride
        rest = _take(frames, used[:, tf.newaxis] + tf.range(kept)[tf.newaxis, :])
        return frames, num_windows, {"frames": rest, "count": total - used}


def _take(frames: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Returns frames [B, T, ...] at positions [B, N]; those past the end may be any."""
    last = tf.shape(frames)[1] - 1
    return tf.gather(frames, tf.minimum(positions, tf.maximum(last, 0)), batch_dims=1)
