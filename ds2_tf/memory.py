"""How much memory a batch needs, and what to do when there is less."""

import dataclasses
import math
import pathlib
from typing import NamedTuple

import tensorflow as tf
from absl import logging
from tensorflow.python.client import device_lib

from ds2_tf.model import DeepSpeech2

_MIB = 1 << 20
_FEATURE_COPIES = 4
_RECOMPUTED_EXCESS = 1.5  # what a layer needs while its gradient is computed, over what it keeps


@dataclasses.dataclass(frozen=True)
class MemoryConfig:
    """Memory of the devices that train.

    Attributes:
      fallback: whether a batch that does not fit is run with activations computed twice instead of
        kept, and if that is still too much, in parts.
      budget_mib: MiB that each replica may use; 0 for what the GPU has, or the free memory of the
        machine without one.
      gpu_growth: GPU memory is taken as needed, not all at the start.
      gpu_limit_mib: at most so much of each GPU's memory, taken at the start; 0 for nearly all.
    """

    fallback: bool = True
    budget_mib: int = 0
    gpu_growth: bool = False
    gpu_limit_mib: int = 0

    def __post_init__(self) -> None:
        """Rejects sizes below 0 and what excludes each other."""
        for name in ("budget_mib", "gpu_limit_mib"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be >= 0. Received: {getattr(self, name)}")
        if self.gpu_growth and self.gpu_limit_mib:
            raise ValueError(
                "gpu_growth takes memory as needed, gpu_limit_mib at the start: set one of them. "
                f"Received: gpu_limit_mib={self.gpu_limit_mib}"
            )


class Execution(NamedTuple):
    """How a batch is run.

    Attributes:
      recompute: whether activations are computed twice instead of kept.
      parts: into how many micro-batches each replica's rows are cut.
    """

    recompute: bool = False
    parts: int = 1


AS_IT_IS = Execution()


def set_up_gpus(config: MemoryConfig) -> None:
    """Tells TensorFlow how to take GPU memory; before anything else is done with a GPU."""
    for gpu in tf.config.list_physical_devices("GPU"):
        if config.gpu_growth:
            tf.config.experimental.set_memory_growth(gpu, True)
        if config.gpu_limit_mib:
            limit = tf.config.LogicalDeviceConfiguration(memory_limit=config.gpu_limit_mib)
            tf.config.set_logical_device_configuration(gpu, [limit])


class MemoryPlanner:
    """Chooses how to run each batch, before it is run and after it failed."""

    def __init__(
        self, config: MemoryConfig, network: DeepSpeech2, precision: str, num_sharing: int = 1
    ) -> None:
        """Looks how much memory there is.

        Args:
          config: the settings.
          network: its layers tell what they keep.
          precision: of the activations.
          num_sharing: replicas that share the memory of one machine without GPUs.
        """
        self._fallback = config.fallback
        self._network = network
        # In half precision the statistics and some gradients are float32 all the same.
        self._bytes_per_value = 4 if precision == "float32" else 3
        self._budget = config.budget_mib * _MIB or _available() / num_sharing
        self._told: set[Execution] = set()

    def choose(self, num_rows: int, num_frames: int) -> Execution:
        """Returns how to run a replica's rows: as cheaply as the predicted memory allows.

        Args:
          num_rows: of the replica.
          num_frames: T of the batch.
        """
        if not self._fallback or self.predict(num_rows, num_frames) <= self._budget:
            return AS_IT_IS
        parts = next(
            (
                parts
                for parts in range(1, num_rows)
                if self.predict(_rows(num_rows, parts), num_frames, recompute=True) <= self._budget
            ),
            max(num_rows, 1),
        )
        return self._tell(Execution(True, parts), num_rows, num_frames)

    def after_failure(self, failed: Execution, num_rows: int, num_frames: int) -> Execution | None:
        """Returns how to run rows again that exhausted the memory, None if nothing is left to try.

        The budget sinks below what the failed run was predicted to need, so that the next batch of
        this size is not tried in vain.
        """
        needed = self.predict(_rows(num_rows, failed.parts), num_frames, failed.recompute)
        self._budget = min(self._budget, 0.95 * needed)
        if not self._fallback or (failed.recompute and failed.parts >= num_rows):
            return None
        parts = min(2 * failed.parts, num_rows) if failed.recompute else 1
        return self._tell(Execution(True, parts), num_rows, num_frames)

    def predict(self, num_rows: int, num_frames: int, recompute: bool = False) -> float:
        """Returns the bytes of activations and weights of a step, roughly.

        Activations grow with rows times frames; what each layer keeps is
        `SequenceLayer.kept_values_per_frame`. With recomputation all layers keep their inputs, and
        the largest keeps everything while its gradient is computed.
        """
        kept = inputs = float(_FEATURE_COPIES * self._network.num_bins)
        largest, stride = 0.0, 1
        for layer in self._network.sequence_layers:
            stride *= layer.time_stride
            own = layer.kept_values_per_frame() / stride
            kept += own
            largest = max(largest, own)
            inputs += layer.output_values_per_frame() / stride
        values = inputs + _RECOMPUTED_EXCESS * largest if recompute else kept
        weights = 4 * 4 * self._network.count_params()  # with gradients and two moments
        return weights + values * num_rows * num_frames * self._bytes_per_value

    def _tell(self, execution: Execution, num_rows: int, num_frames: int) -> Execution:
        if execution not in self._told:
            self._told.add(execution)
            parts = ""
            if execution.parts > 1:
                parts = f" and in {execution.parts} parts, each with batch statistics of its own"
            logging.warning(
                "memory: batches such as this one (%d utterances, %d frames, %d MiB predicted, "
                "%d MiB allowed) are run with activations computed twice%s; said once",
                num_rows,
                num_frames,
                self.predict(num_rows, num_frames) // _MIB,
                self._budget // _MIB,
                parts,
            )
        return execution


def _rows(num_rows: int, parts: int) -> int:
    return math.ceil(num_rows / parts)


def _available() -> float:
    """Returns the bytes that a replica may use: of a GPU's memory, or of the machine's free one."""
    if tf.config.list_logical_devices("GPU"):
        devices = device_lib.list_local_devices()
        return min(d.memory_limit for d in devices if d.device_type == "GPU")
    with open("/proc/meminfo", encoding="ascii") as file:
        sizes = dict(line.split(":") for line in file)
    free = int(sizes["MemAvailable"].split()[0]) << 10
    limit = pathlib.Path("/sys/fs/cgroup/memory.max")  # of the container, if there is one
    if limit.exists() and (text := limit.read_text(encoding="ascii").strip()).isdigit():
        free = min(free, int(text))
    return 0.9 * free
