"""Means that follow a stream: what a causal normalisation divides by."""

import tensorflow as tf


def start(mean: tf.Tensor, batch_size: int | tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the state of B streams that begin with the same mean [C]."""
    mean = tf.convert_to_tensor(mean, tf.float32)
    return {
        "mean": tf.tile(mean[tf.newaxis], [batch_size, 1]),
        "count": tf.zeros([batch_size], tf.int32),
    }


def running_mean(
    values: tf.Tensor,
    lengths: tf.Tensor,
    state: dict[str, tf.Tensor],
    prior_frames: int,
    memory_frames: int,
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Returns the mean after each frame: m[t] = m[t - 1] + (x[t] - m[t - 1]) / n[t].

    n[t] = min(t + prior_frames, memory_frames), t = 1, 2, ...: at first the mean of all frames so
    far and of `prior_frames` that had the mean m[0], then one that forgets.

    Args:
      values: [B, T, C] float32; what lies past the lengths is ignored.
      lengths: [B] int32.
      state: from `start` or the last call: "mean" [B, C] and "count" [B] int32.
      prior_frames: how many frames the first mean counts for, >= 0.
      memory_frames: the largest n, >= 1.

    Returns:
      the means [B, T, C], and the new state.
    """
    num_frames = tf.shape(values)[1]
    count = state["count"][:, tf.newaxis] + 1 + tf.range(num_frames)
    rate = 1.0 / tf.cast(tf.minimum(count + prior_frames, memory_frames), tf.float32)
    valid = tf.expand_dims(tf.sequence_mask(lengths, num_frames), -1)
    rate = tf.where(valid, tf.expand_dims(rate, -1), 0.0)
    values = tf.where(valid, values, 0.0)
    kept, added = _compose_all(1.0 - rate, rate * values)
    before = state["mean"][:, tf.newaxis]
    means = kept * before + added
    last = tf.concat([before, means], axis=1)[:, -1]
    return means, {
        "mean": last,
        "count": tf.minimum(state["count"] + lengths, memory_frames),
    }


def _compose_all(kept: tf.Tensor, added: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns for each frame the maps m -> kept m + added of all frames up to it as one.

    Each round doubles the reach: log2(T) rounds. Both are [B, T, ...].
    """
    num_frames = tf.shape(kept)[1]
    frame = tf.range(num_frames)[:, tf.newaxis]

    def compose(
        reach: int | tf.Tensor, kept: tf.Tensor, added: tf.Tensor
    ) -> tuple[int | tf.Tensor, tf.Tensor, tf.Tensor]:
        earlier = tf.maximum(frame[:, 0] - reach, 0)
        kept_earlier = tf.where(frame < reach, 1.0, tf.gather(kept, earlier, axis=1))
        added_earlier = tf.where(frame < reach, 0.0, tf.gather(added, earlier, axis=1))
        return 2 * reach, kept * kept_earlier, added + kept * added_earlier

    if kept.shape[1] is not None:  # Short of a loop, that is.
        reach = 1
        while reach < kept.shape[1]:
            reach, kept, added = compose(reach, kept, added)
        return kept, added
    _, kept, added = tf.while_loop(
        lambda reach, *_: reach < num_frames, compose, (tf.constant(1), kept, added)
    )
    return kept, added
