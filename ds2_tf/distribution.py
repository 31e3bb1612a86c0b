"""Which devices train together, and how they share a batch."""

import tensorflow as tf
from absl import logging


def make_strategy() -> tf.distribute.MirroredStrategy:
    """Returns a MirroredStrategy over all GPUs, else over all logical CPUs.

    Two GPUs or more sum their gradients with NCCL; the log names the devices and the way they sum.
    """
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


def share_of_replica(
    batch: dict[str, tf.Tensor], context: tf.distribute.ReplicaContext
) -> dict[str, tf.Tensor]:
    """Returns the rows of a global batch that a replica works on.

    Args:
      batch: tensors [B, ...], B a multiple of the number of replicas.
      context: of the replica.
    """
    if context.num_replicas_in_sync == 1:
        return batch
    num_rows = tf.shape(batch["utterance_index"])[0] // context.num_replicas_in_sync
    start = context.replica_id_in_sync_group * num_rows
    return {key: value[start : start + num_rows] for key, value in batch.items()}
