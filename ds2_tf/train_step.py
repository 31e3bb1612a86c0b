"""One step of training: losses, gradients, the sum over all replicas, clipping, the update."""

import math
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ds2_tf import distribution
from ds2_tf.input_pipeline import BATCH_SIGNATURE
from ds2_tf.layers.batch_norm import collected_statistics
from ds2_tf.layers.recomputation import recomputed_activations
from ds2_tf.memory import AS_IT_IS, Execution
from ds2_tf.ops.ctc import ctc_loss


class Sums(NamedTuple):
    """What the rows of a batch add up to, over all replicas.

    Attributes:
      loss: of the utterances, in nats.
      count: utterances.
      stop_requests: workers that were asked to stop.
      gradients: of the loss times the loss scale, one for each trainable variable.
      statistics: mean, variance and count of each batch normalisation.
    """

    loss: tf.Tensor
    count: tf.Tensor
    stop_requests: tf.Tensor
    gradients: list[tf.Tensor]
    statistics: list[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]


class Step(NamedTuple):
    """What one step found.

    Attributes:
      loss: mean over the utterances, in nats.
      gradient_norm: of the mean loss, before clipping.
      stop_requests: workers that were asked to stop.
    """

    loss: float
    gradient_norm: float
    stop_requests: int


class TrainStep:
    """Computes the gradients of a global batch and, in a second call, applies them.

    The loss is the sum of the utterances' losses over the global batch, divided by the number of
    its utterances. Each replica takes its share of the rows; the gradients are summed over the
    replicas, clipped and applied. Between `compute` and `apply` nothing has changed, so a step can
    be left out, or computed again in another way.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        network: keras.Model,
        update: keras.optimizers.Optimizer,
        clip_norm: float,
    ) -> None:
        self._strategy = strategy
        self._network = network
        self._update = update
        self._clip_norm = clip_norm
        self._variables = network.trainable_variables
        self._normalizations: list[Any] = []
        self._computed: Any = None
        self._gradients_of = {
            recompute: self._make_gradients(recompute) for recompute in (False, True)
        }
        self._add = tf.function(lambda a, b: strategy.run(_added, (a, b)))
        self._measure = tf.function(lambda sums, scale: strategy.run(self._norm, (sums, scale)))
        self._apply = tf.function(
            lambda sums, scale, norm: strategy.run(self._update_weights, (sums, scale, norm))
        )

    @property
    def num_traces(self) -> int:
        """How often TensorFlow traced functions of the step; it must not grow with the steps."""
        functions = [*self._gradients_of.values(), self._add, self._measure, self._apply]
        return sum(function.experimental_get_tracing_count() for function in functions)

    def compute(
        self,
        batch: dict[str, tf.Tensor],
        execution: Execution = AS_IT_IS,
        loss_scale: float = 1.0,
        stop_requested: bool = False,
    ) -> Step:
        """Computes loss and gradients of a batch, which `apply` will use.

        Args:
          batch: as `BATCH_SIGNATURE` says; this worker's rows.
          execution: how to save memory.
          loss_scale: what the loss is multiplied by in half precision, lest gradients vanish.
          stop_requested: whether this worker was asked to stop; all learn of it.
        """
        gradients_of = self._gradients_of[execution.recompute]
        # Gradients are sums over the rows; half precision shall hold them as if they were means.
        mean_scale = 2.0 ** -math.ceil(math.log2(len(batch["labels"])))
        scale = tf.constant(loss_scale * mean_scale)
        stop = tf.constant(float(stop_requested))
        sums = gradients_of(batch, tf.constant(0), tf.constant(execution.parts), scale, stop)
        for part in range(1, execution.parts):
            more = gradients_of(
                batch, tf.constant(part), tf.constant(execution.parts), scale, stop * 0
            )
            sums = self._add(sums, more)
        loss, norm, stop_requests = (
            float(distribution.first(self._strategy, value)) for value in self._measure(sums, scale)
        )
        self._computed = sums, scale
        return Step(loss, norm, round(stop_requests))

    def apply(self, gradient_norm: float) -> None:
        """Clips and applies the gradients of the last `compute`, and moves the running averages."""
        self._apply(*self._computed, tf.constant(gradient_norm))

    def _make_gradients(self, recompute: bool) -> Any:
        def replica(
            batch: dict[str, tf.Tensor], part: tf.Tensor, parts: tf.Tensor, *scalars: tf.Tensor
        ) -> Sums:
            share = distribution.share_of_replica(batch, self._strategy)
            share = distribution.part_of_rows(share, part, parts)
            if recompute:
                with recomputed_activations():
                    return self._replica_gradients(share, *scalars)
            return self._replica_gradients(share, *scalars)

        scalar = tf.TensorSpec([], tf.float32)
        number = tf.TensorSpec([], tf.int32)

        @tf.function(input_signature=[BATCH_SIGNATURE, number, number, scalar, scalar])
        def gradients_of(*arguments: Any) -> Sums:
            return self._strategy.run(replica, arguments)

        return gradients_of

    def _replica_gradients(
        self, share: dict[str, tf.Tensor], scale: tf.Tensor, stop: tf.Tensor
    ) -> Sums:
        context = tf.distribute.get_replica_context()
        inputs = {key: share[key] for key in ("features", "feature_lengths")}
        with collected_statistics() as statistics:
            with tf.GradientTape() as tape:
                outputs = self._network(inputs, training=True)
                losses = ctc_loss(
                    outputs["logits"],
                    outputs["logit_lengths"],
                    share["labels"],
                    share["label_lengths"],
                )
                loss = tf.reduce_sum(losses)
                scaled = loss * scale
            gradients = tape.gradient(scaled, self._variables)
        self._normalizations = [found.layer for found in statistics]
        count = tf.math.count_nonzero(share["utterance_index"] >= 0, dtype=tf.float32)
        stop = tf.where(distribution.is_first_local(context, self._strategy), stop, 0.0)
        loss, count, stop, gradients = context.all_reduce(
            tf.distribute.ReduceOp.SUM, (loss, count, stop, gradients)
        )
        return Sums(
            loss, count, stop, gradients, [(s.mean, s.variance, s.count) for s in statistics]
        )

    @staticmethod
    def _norm(sums: Sums, scale: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        divisor = tf.maximum(sums.count, 1.0)
        norm = tf.linalg.global_norm(sums.gradients) / (divisor * scale)
        return sums.loss / divisor, norm, sums.stop_requests

    def _update_weights(self, sums: Sums, scale: tf.Tensor, norm: tf.Tensor) -> tf.Tensor:
        factor = self._clip_norm / tf.maximum(norm, self._clip_norm)
        factor /= tf.maximum(sums.count, 1.0) * scale
        self._update.apply([gradient * factor for gradient in sums.gradients], self._variables)
        for layer, statistics in zip(self._normalizations, sums.statistics, strict=True):
            layer.move_averages(*statistics)
        return norm


def _added(a: Sums, b: Sums) -> Sums:
    return Sums(
        a.loss + b.loss,
        a.count + b.count,
        a.stop_requests + b.stop_requests,
        [x + y for x, y in zip(a.gradients, b.gradients, strict=True)],
        [_pooled(x, y) for x, y in zip(a.statistics, b.statistics, strict=True)],
    )


def _pooled(a: tuple[tf.Tensor, ...], b: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
    """Returns mean, variance and count of two samples together. Source: Chan et al. 1979."""
    (mean_a, variance_a, count_a), (mean_b, variance_b, count_b) = a, b
    count = count_a + count_b
    share = count_b / tf.maximum(count, 1.0)
    difference = mean_b - mean_a
    variance = variance_a + share * (variance_b - variance_a)
    return mean_a + share * difference, variance + share * (1 - share) * difference**2, count
