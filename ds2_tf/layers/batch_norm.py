"""Batch normalisation over the valid frames of a batch of sequences."""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ds2_tf.layers import lengths as lengths_lib


class Statistics(NamedTuple):
    """What a `SequenceBatchNorm` found in a batch.

    Attributes:
      layer: the layer.
      mean: [C] float32.
      variance: [C] float32.
      count: how many values of each channel are behind them; float32.
    """

    layer: "SequenceBatchNorm"
    mean: tf.Tensor
    variance: tf.Tensor
    count: tf.Tensor


_collected: contextvars.ContextVar[list[Statistics] | None] = contextvars.ContextVar(
    "statistics", default=None
)


@contextlib.contextmanager
def collected_statistics() -> Iterator[list[Statistics]]:
    """Within it no running average moves: the list receives what the layers find, in their order.

    `SequenceBatchNorm.move_averages` is for afterwards.
    """
    found: list[Statistics] = []
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


@keras.saving.register_keras_serializable("ds2_tf")
class SequenceBatchNorm(keras.layers.Layer):
    """Sequence-wise batch normalisation.

    y = gamma (x - E[x]) / sqrt(Var[x] + epsilon) + beta, where mean and variance of each channel
    are taken in training over all valid frames of all utterances of the batch, and of all replicas
    unless `synchronized` is False; at inference they are the running averages. So they are in
    training, too, while the layer is frozen (`trainable` is False): these then stay as they are.

    A replica without any frame weighs nothing. Statistics are float32 in every precision.

    Source: Deep Speech 2, section 3.2.
    """

    def __init__(
        self,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        synchronized: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must lie in [0, 1). Received: {momentum}")
        self.momentum = momentum
        self.epsilon = epsilon
        self.synchronized = synchronized

    def build(self, shape: tuple[int | None, ...], *_: Any) -> None:
        """Creates gamma, beta [C] and the running mean and variance [C]."""
        channels = (shape[-1],)
        exact: dict[str, Any] = {"dtype": "float32", "autocast": False}
        self.gamma = self.add_weight(channels, "ones", name="gamma", **exact)
        self.beta = self.add_weight(channels, "zeros", name="beta", **exact)
        running = {**exact, "trainable": False, "aggregation": "mean"}
        self.moving_mean = self.add_weight(channels, "zeros", name="moving_mean", **running)
        self.moving_variance = self.add_weight(channels, "ones", name="moving_variance", **running)

    def call(self, x: tf.Tensor, lengths: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns the normalised sequences, zero past each length.

        Args:
          x: [B, T, ..., C].
          lengths: [B] int32, valid frames; what lies past them is ignored.
          training: takes the batch's statistics and updates the running averages, unless frozen.
        """
        x = lengths_lib.mask_frames(x, lengths)
        if training and self.trainable:
            mean, variance, count = self._batch_statistics(tf.cast(x, tf.float32), lengths)
            if (collected := _collected.get()) is None:
                self.move_averages(mean, variance, count)
            else:
                collected.append(Statistics(self, mean, variance, count))
        else:
            mean, variance = self.moving_mean.value, self.moving_variance.value
        scale = self.gamma.value * tf.math.rsqrt(variance + self.epsilon)
        shift = self.beta.value - mean * scale
        return lengths_lib.mask_frames(
            x * tf.cast(scale, x.dtype) + tf.cast(shift, x.dtype), lengths
        )

    def move_averages(self, mean: tf.Tensor, variance: tf.Tensor, count: tf.Tensor) -> None:
        """Moves the running averages towards a batch's mean [C] and variance [C].

        A batch without values, count = 0, leaves them alone.
        """
        rate = tf.where(count > 0, 1.0 - self.momentum, 0.0)
        for average, value in ((self.moving_mean, mean), (self.moving_variance, variance)):
            average.assign(average.value + rate * (value - average.value))

    def _batch_statistics(
        self, x: tf.Tensor, lengths: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns mean [C], variance [C] and the number of values behind them."""
        axes = list(range(x.shape.rank - 1))
        positions_per_frame = tf.reduce_prod(tf.shape(x)[2:-1])
        local_count = tf.cast(tf.reduce_sum(lengths) * positions_per_frame, tf.float32)
        count = self._sum_over_replicas(local_count)
        divisor = tf.maximum(count, 1.0)
        mean = self._sum_over_replicas(tf.reduce_sum(x, axes)) / divisor
        centred = lengths_lib.mask_frames(x - mean, lengths)
        variance = self._sum_over_replicas(tf.reduce_sum(tf.square(centred), axes)) / divisor
        return mean, variance, count

    def _sum_over_replicas(self, value: tf.Tensor) -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        if not self.synchronized or context is None or context.num_replicas_in_sync == 1:
            return value
        return context.all_reduce(tf.distribute.ReduceOp.SUM, value)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "momentum": self.momentum,
            "epsilon": self.epsilon,
            "synchronized": self.synchronized,
        }
