"""What a whole training step costs in time and memory, ours and PyTorch's."""

import contextlib
import functools
import itertools
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ds2_tf import optimizer
from ds2_tf.benchmarks import contest, measurement, resident, torch_client
from ds2_tf.benchmarks.contest import Result
from ds2_tf.benchmarks.measurement import Row, Times
from ds2_tf.benchmarks.torch_client import TorchClient
from ds2_tf.errors import UserError
from ds2_tf.model import DeepSpeech2, ModelConfig
from ds2_tf.native import ops as native
from ds2_tf.train_step import TrainStep

TORCH = "torch"
_OURS = {"native, own input weights": False, "native, shared input weights": True}
_PACKINGS = ("packed", "unpacked")
_LAYOUTS = ("NCHW", "channels-last")
_CLIP_NORM = 400.0
_LABELS_PER_FRAME = 0.14
# Seconds of LibriSpeech's training utterances, roughly, at these shares of them.
_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
_SECONDS = (2.0, 5.0, 10.0, 13.8, 15.2, 15.9, 17.0)


class Case(NamedTuple):
    """A batch, its longest utterance `num_frames` T long, and the network that learns from it."""

    batch_size: int = 16
    num_frames: int = 800
    num_bins: int = 161
    num_labels: int = 29
    model: ModelConfig = ModelConfig(cell="rnn")

    def __str__(self) -> str:
        """Names the case as in reports."""
        return (
            f"training step B={self.batch_size} T={self.num_frames}, "
            f"{len(self.model.conv_channels)} convolutions, {self.model.rnn_layers} bidirectional "
            f"rnn, H={self.model.rnn_units}"
        )

    def batch(self) -> dict[str, np.ndarray]:
        """Returns noise and random labels as `TrainStep` takes them, the longest first.

        Lengths are spread as in LibriSpeech.
        """
        generator = np.random.default_rng(0)
        shares = 1 - (np.arange(self.batch_size) + 0.5) / self.batch_size
        seconds = np.interp(shares, _SHARES, _SECONDS)
        lengths = (self.num_frames * seconds / seconds[0]).round().astype(np.int32)
        label_lengths = (_LABELS_PER_FRAME * lengths).astype(np.int32)
        label_shape = (self.batch_size, label_lengths[0])
        shape = (self.batch_size, self.num_frames, self.num_bins)
        return {
            "utterance_index": np.arange(self.batch_size, dtype=np.int32),
            "features": generator.standard_normal(shape, np.float32),
            "feature_lengths": lengths,
            "labels": generator.integers(1, self.num_labels, label_shape, np.int32),
            "label_lengths": label_lengths,
        }


def measure(
    case: Case, precisions: Sequence[str], repetitions: int, torch: TorchClient | None
) -> list[Result]:
    """Returns the times of all contenders in all precisions, ours first.

    Raises:
      UserError: the native operations can't be used here.
    """
    timers: dict[tuple[str, str], Callable[[], Times]] = {}
    for precision in precisions:
        for name, shared_input in _OURS.items():
            step = _step(case, precision, shared_input)
            step()  # Traced once; a slow contender's first round would count that.
            timers[name, precision] = functools.partial(measurement.once, step)
        if torch is not None:
            with _saved(case.batch()) as path:
                for name, arguments in _torch_steps(case, precision, path).items():
                    timers[name, precision] = torch.prepare(f"{name} {precision}", **arguments)
    times = contest.in_turn({f"{n} {p}": timer for (n, p), timer in timers.items()}, repetitions)
    names = [*timers, *([] if torch else [(TORCH, precision) for precision in precisions])]
    return [
        Result(title := f"{name} {p}", times.get(title), None, p, name in _OURS)
        for name, p in sorted(names, key=lambda each: precisions.index(each[1]))
    ]


def memory_rows(
    case: Case, precisions: Sequence[str], torch_python: str, num_threads: int
) -> list[Row]:
    """Returns by how much a step raises the peak resident set; each has a process of its own.

    Raises:
      UserError: the native operations or the Python named can't be used here.
    """
    rows = []
    for precision in precisions:
        peers = {}
        with _saved(case.batch()) as path:
            for name, arguments in _torch_steps(case, precision, path).items():
                with torch_client.start(torch_python, num_threads) as torch:
                    if torch is not None:
                        torch.prepare(name, **arguments)
                        peers[f"{name} {precision}"] = torch.peak_bytes(name) / 2**20
        best = min(peers, key=peers.__getitem__, default=None)
        for name, shared_input in _OURS.items():
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                peak = pool.apply(_peak_bytes, (case, precision, shared_input, num_threads))
            title = f"{case}, {name} {precision}"
            rows.append(Row(title, "peak MiB", peak / 2**20, best, peers[best] if best else None))
    return rows


def _step(case: Case, precision: str, shared_input: bool) -> Callable[[], None]:
    """Returns ours; its learning rate is 0, so each step is like the first."""
    if native.load() is None:
        raise UserError("the native operations are not used here; the log says why")
    keras.utils.set_random_seed(0)
    values = {**vars(case.model), "shared_input": shared_input}
    network = DeepSpeech2(ModelConfig(**values), case.num_bins, case.num_labels, precision)
    update = optimizer.make(optimizer.OptimizerConfig())
    update.build(network.trainable_variables)
    train_step = TrainStep(tf.distribute.get_strategy(), network, update, _CLIP_NORM)
    batch = {name: tf.constant(value) for name, value in case.batch().items()}

    def step() -> None:
        train_step.apply(train_step.compute(batch).gradient_norm)

    return step


def _peak_bytes(case: Case, precision: str, shared_input: bool, num_threads: int) -> int:
    measurement.limit_threads(num_threads)
    return resident.peak_bytes_above(_step(case, precision, shared_input))


@contextlib.contextmanager
def _saved(batch: Mapping[str, Any]) -> Iterator[str]:
    """Gives the path of an .npz file with the batch."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "batch.npz")
        np.savez(path, **batch)
        yield path


def _torch_steps(case: Case, precision: str, path: str) -> dict[str, dict[str, Any]]:
    """Returns the arguments of `TorchClient.prepare` for PyTorch's forms of the step, by name."""
    common = {
        "kind": "training",
        "path": path,
        "clip_norm": _CLIP_NORM,
        "dtype": precision,
        "channels": case.model.conv_channels,
        "kernels": case.model.conv_kernels,
        "strides": case.model.conv_strides,
        "rnn_layers": case.model.rnn_layers,
        "units": case.model.rnn_units,
        "num_labels": case.num_labels,
    }
    return {
        f"{TORCH} {packing} {layout}": {
            **common,
            "packed": packing == "packed",
            "channels_last": layout == "channels-last",
        }
        for packing, layout in itertools.product(_PACKINGS, _LAYOUTS)
    }
