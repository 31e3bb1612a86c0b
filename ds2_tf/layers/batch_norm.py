"""Batch normalisation over the valid frames of a batch of sequences."""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ds2_tf.ops.batch_norm import batch_norm, fixed_batch_norm, is_native


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

    def call(
        self, x: tf.Tensor, lengths: tf.Tensor, training: bool = False, clip: bool = False
    ) -> tf.Tensor:
        """Returns the normalised sequences, zero past each length.

        Args:
          x: [B, T, ..., C].
          lengths: [B] int32, valid frames; what lies past them is ignored.
          training: takes the batch's statistics and updates the running averages, unless frozen.
          clip: whether the clipped ReLU follows.
        """
        inputs = (x, lengths, self.gamma.value, self.beta.value)
        if not (training and self.trainable):
            return fixed_batch_norm(
                *inputs,
                epsilon=self.epsilon,
                mean=self.moving_mean.value,
                variance=self.moving_variance.value,
                clip=clip,
            )
        y, moments = batch_norm(
            *inputs, epsilon=self.epsilon, sum_over_replicas=self._sum_over_replicas, clip=clip
        )
        if (collected := _collected.get()) is None:
            self.move_averages(*moments)
        else:
            collected.append(Statistics(self, *moments))
        return y

    @property
    def kept_copies(self) -> int:
        """How many tensors like x and y training keeps for the gradient, both of them included."""
        return 2 if is_native(self.compute_dtype) else 4

    def scale_and_shift(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns what inference multiplies by and then adds, both [C] float32."""
        scale = self.gamma.value * tf.math.rsqrt(self.moving_variance.value + self.epsilon)
        return scale, self.beta.value - self.moving_mean.value * scale

    def move_averages(self, mean: tf.Tensor, variance: tf.Tensor, count: tf.Tensor) -> None:
        """Moves the running averages towards a batch's mean [C] and variance [C].

        A batch without values, count = 0, leaves them alone.
        """
        rate = tf.where(count > 0, 1.0 - self.momentum, 0.0)
        for average, value in ((self.moving_mean, mean), (self.moving_variance, variance)):
            average.assign(average.value + rate * (value - average.value))

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
