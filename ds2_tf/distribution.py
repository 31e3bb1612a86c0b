"""Which devices and machines train together, and how they share a batch."""

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from ds2_tf.errors import UserError

_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)


class Workers:
    """The processes that train one model together; most often it is this one alone.

    Attributes:
      strategy: how the replicas of all workers act as one.
      index: of this worker; 0 is the chief, which alone writes checkpoints and evaluates.
      count: of the workers.
    """

    def __init__(self, strategy: tf.distribute.Strategy, index: int = 0, count: int = 1) -> None:
        self.strategy = strategy
        self.index = index
        self.count = count

    @property
    def is_chief(self) -> bool:
        """Whether this worker is the first."""
        return self.index == 0

    @property
    def num_replicas(self) -> int:
        """Replicas of all workers."""
        return self.strategy.num_replicas_in_sync

    @property
    def num_local_replicas(self) -> int:
        """Replicas of this worker."""
        return self.num_replicas // self.count

    def from_chief(self, values: Sequence[float]) -> list[float]:
        """Returns the chief's values on all workers, which wait for each other here."""
        if self.count == 1:
            return list(values)
        own = tf.constant(values if self.is_chief else [0.0] * len(values), tf.float64)
        return first(self.strategy, self._sum(own)).numpy().tolist()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float64)])
    def _sum(self, own: tf.Tensor) -> tf.Tensor:
        def replica(own: tf.Tensor) -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            own = tf.where(is_first_local(context, self.strategy), own, tf.zeros_like(own))
            return context.all_reduce(tf.distribute.ReduceOp.SUM, own)

        return self.strategy.run(replica, (own,))

    def wait_for_all(self) -> None:
        """Returns when all workers have come here."""
        self.from_chief([0.0])

    @contextlib.contextmanager
    def all_or_none(self) -> Iterator[None]:
        """Waits at its end for all workers; a `UserError` within it on one of them stops all."""
        problem: UserError | None = None
        try:
            yield
        except UserError as error:
            problem = error
        number = float(problem is not None)
        if self.count > 1:
            total = self._sum(tf.constant([number], tf.float64))
            number = float(first(self.strategy, total)[0])
        if problem is not None:
            raise problem
        if number:
            raise UserError("another worker cannot go on; its own log says why")

    @contextlib.contextmanager
    def lost_ones_told(self) -> Iterator[None]:
        """Turns TensorFlow's errors about a worker that is gone into a `UserError`."""
        try:
            yield
        except _LOST as error:
            if self.count == 1:
                raise
            raise UserError(
                f"worker {self.index} of {self.count} lost another one ({type(error).__name__}); "
                "look at its log, then start all workers again with the same command: training "
                "goes on from the last checkpoint"
            ) from error


def connect() -> Workers:
    """Returns the workers that the environment variable TF_CONFIG names, or this process alone.

    On one machine a MirroredStrategy takes all GPUs, else all logical CPUs. Two GPUs or more sum
    their gradients with NCCL, also between machines; the log names the devices and the way they
    sum. With several workers it has to come before all other work with TensorFlow.

    Raises:
      UserError: when TF_CONFIG cannot be understood.
    """
    index, addresses = _place_in_cluster()
    count = len(addresses)
    if count <= 1:
        return Workers(_one_machine())
    others = [address for i, address in enumerate(addresses) if i != index]
    logging.info("worker %d of %d, waiting for %s", index, count, ", ".join(others))
    on_gpus = bool(tf.config.list_physical_devices("GPU"))
    communication = tf.distribute.experimental.CommunicationImplementation
    way = communication.NCCL if on_gpus else communication.RING
    options = tf.distribute.experimental.CommunicationOptions(implementation=way)
    try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    except tf.errors.OpError as error:
        raise UserError(
            f"TF_CONFIG: worker {index} cannot work with {', '.join(addresses)} "
            f"({error.message.partition(chr(10))[0]}); see that all run, each with an index of its "
            f"own, and that nothing else listens on {addresses[index]}"
        ) from error
    logging.info(
        "worker %d of %d, training on %s (collective %s)",
        index,
        count,
        ", ".join(strategy.extended.worker_devices),
        way.value,
    )
    return Workers(strategy, index, count)


def _one_machine() -> tf.distribute.MirroredStrategy:
    gpus = tf.config.list_logical_devices("GPU")
    devices = [device.name for device in gpus or tf.config.list_logical_devices("CPU")]
    cross_device_ops: tf.distribute.CrossDeviceOps | None = None
    if len(gpus) > 1:
        cross_device_ops = tf.distribute.NcclAllReduce()
    elif len(devices) > 1:
        cross_device_ops = tf.distribute.ReductionToOneDevice()
    way = type(cross_device_ops).__name__ if cross_device_ops else "no reduction"
    logging.info("training on %s (%s)", ", ".join(devices), way)
    return tf.distribute.MirroredStrategy(devices, cross_device_ops)


def _place_in_cluster() -> tuple[int, list[str]]:
    """Returns this worker's number and the addresses of all, none without a cluster."""
    text = os.environ.get("TF_CONFIG", "")
    if not text:
        return 0, []
    try:
        description = json.loads(text)
        workers = description["cluster"]["worker"]
        kind, index = description["task"]["type"], int(description["task"]["index"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"TF_CONFIG: cannot be understood ({type(error).__name__}: {error}); it must look like "
            '{"cluster": {"worker": ["host1:port", "host2:port"]}, "task": {"type": "worker", '
            '"index": 0}}'
        ) from error
    if kind != "worker" or set(description["cluster"]) != {"worker"}:
        raise UserError("TF_CONFIG: all tasks must be of type 'worker'; worker 0 is the chief")
    if not isinstance(workers, list) or not all(_is_address(worker) for worker in workers):
        raise UserError(f'TF_CONFIG: "worker" must list addresses "host:port". Received: {workers}')
    if len(set(workers)) < len(workers):
        raise UserError(f"TF_CONFIG: an address occurs twice in {', '.join(workers)}")
    if not 0 <= index < len(workers):
        raise UserError(f"TF_CONFIG: task index {index} is none of the {len(workers)} workers")
    return index, workers


def _is_address(text: Any) -> bool:
    host, _, port = str(text).rpartition(":")
    return bool(host) and port.isdigit() and 0 < int(port) < 65536


def first(strategy: tf.distribute.Strategy, value: Any) -> tf.Tensor:
    """Returns the value of the first replica of this worker."""
    return strategy.experimental_local_results(value)[0]


def is_first_local(
    context: tf.distribute.ReplicaContext, strategy: tf.distribute.Strategy
) -> tf.Tensor:
    """Returns whether a replica is the first of its worker."""
    return tf.equal(context.replica_id_in_sync_group % _num_local(strategy), 0)


def share_of_replica(
    batch: dict[str, tf.Tensor], strategy: tf.distribute.Strategy
) -> dict[str, tf.Tensor]:
    """Returns the rows of a worker's batch that the current replica works on.

    Args:
      batch: tensors [B, ...], B a multiple of the worker's number of replicas.
      strategy: whose replica is running.
    """
    num_local = _num_local(strategy)
    if num_local == 1:
        return batch
    context = tf.distribute.get_replica_context()
    return part_of_rows(batch, context.replica_id_in_sync_group % num_local, num_local)


def part_of_rows(
    batch: dict[str, tf.Tensor], part: int | tf.Tensor, parts: int | tf.Tensor
) -> dict[str, tf.Tensor]:
    """Returns the rows of part number `part`; the parts differ by one row at most.

    Args:
      batch: tensors [B, ...].
      part: in [0, parts).
      parts: how many there are; no more than B.
    """
    num_rows = tf.shape(batch["utterance_index"])[0]
    start, end = num_rows * part // parts, num_rows * (part + 1) // parts
    return {key: value[start:end] for key, value in batch.items()}


def _num_local(strategy: tf.distribute.Strategy) -> int:
    return len(strategy.extended.worker_devices) if strategy.num_replicas_in_sync > 1 else 1
