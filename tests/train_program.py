"""Trains a tiny model on spoken digits, and can be killed on the way; run as a process of its own.

  python -m tests.train_program SETTINGS

SETTINGS is JSON: workdir, manifest, dev (optional), config (values that differ from `TINY_RUN`),
replicas (logical CPUs), kill_at_step (SIGKILL before that step), kill_in_write (SIGKILL in the
middle of the n-th file that is written), interrupt_at_step (SIGINT), unreadable (a recording whose
file "breaks" after the check of the data), exhaust_memory (steps up to this number fail that way
unless activations are recomputed).
"""

import json
import os
import signal
import sys
from typing import Any

import ml_collections
import numpy as np
import tensorflow as tf
from absl import logging

from ds2_tf import atomic, audio, config, memory, schedule, train, train_step
from ds2_tf.errors import UserError
from ds2_tf.manifest import Utterance

TINY_RUN = {
    "alphabet": {"symbols": " efghinorstuvwxz"},
    "features": {"sample_rate_hz": 8000},
    "model": {
        "conv_channels": (4,),
        "conv_kernels": ((5, 9),),
        "conv_strides": ((2, 4),),
        "rnn_layers": 1,
        "rnn_units": 16,
        "dropout": 0.3,
    },
    "batches": {"batch_size": 4, "sorted_epochs": 1, "num_buckets": 3},
    "augment": {"speed": (0.9, 1.1), "noise_share": 0.5, "channel_db": 3.0},
    "optimizer": {"name": "adam"},
    "schedule": {"learning_rate": 3e-3, "anneal": 1.1},
    "training": {"num_epochs": 3, "seed": 7, "checkpoint_steps": 4, "log_steps": 2},
}


def kill_before_step(number: int, how: signal.Signals) -> None:
    """Makes the learning rate's schedule, which each step asks, send a signal at a step."""
    learning_rate = schedule.learning_rate

    def deadly(settings: schedule.ScheduleConfig, step: int, *others: Any) -> float:
        if step == number:
            os.kill(os.getpid(), how)
        return learning_rate(settings, step, *others)

    schedule.learning_rate = deadly


def kill_in_write(number: int) -> None:
    """Kills the process when the n-th file is half on the disk."""
    fsync, count = os.fsync, 0

    def deadly(descriptor: int) -> None:
        nonlocal count
        count += 1
        if count == number:
            os.truncate(descriptor, os.fstat(descriptor).st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(descriptor)

    atomic.os.fsync = deadly


def break_recording(path: str) -> None:
    """Makes the input pipeline fail to read a recording."""
    load_utterance = audio.load_utterance

    def broken(utterance: Utterance, *others: Any) -> np.ndarray:
        if path in utterance.audio_paths and len(others) == 2:
            raise audio.AudioError(path, "missing", "gone", "restore it")
        return load_utterance(utterance, *others)

    audio.load_utterance = broken


def exhaust_memory(last: int) -> None:
    """Makes the first steps run out of memory unless activations are recomputed."""
    compute, count = train_step.TrainStep.compute, 0

    def small(self: Any, batch: Any, execution: memory.Execution, *others: Any) -> Any:
        nonlocal count
        count += 1
        if count <= last and not execution.recompute:
            raise tf.errors.ResourceExhaustedError(None, None, "no room")
        return compute(self, batch, execution, *others)

    train_step.TrainStep.compute = small


def main() -> int:
    """Trains as the settings say."""
    settings = json.loads(sys.argv[1])
    if settings.get("replicas", 1) > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        devices = [tf.config.LogicalDeviceConfiguration()] * settings["replicas"]
        tf.config.set_logical_device_configuration(cpu, devices)
    if "kill_at_step" in settings:
        kill_before_step(settings["kill_at_step"], signal.SIGKILL)
    if "interrupt_at_step" in settings:
        kill_before_step(settings["interrupt_at_step"], signal.SIGINT)
    if "kill_in_write" in settings:
        kill_in_write(settings["kill_in_write"])
    if "unreadable" in settings:
        break_recording(settings["unreadable"])
    if "exhaust_memory" in settings:
        exhaust_memory(settings["exhaust_memory"])
    logging.set_verbosity(logging.INFO)
    values = ml_collections.ConfigDict(TINY_RUN)
    values.unlock()
    values.data = {"train": settings["manifest"], "dev": settings.get("dev", "")}
    values.update(ml_collections.ConfigDict(settings.get("config", {})))
    try:
        progress = train.train(config.resolve(values), settings["workdir"])
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"finished at step {progress.step}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
