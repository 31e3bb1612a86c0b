"""What a CTC loss with its gradient costs, ours and others', and how exact the gradient is."""

import contextlib
import pathlib
import tempfile
from collections.abc import Callable, Iterator
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ds2_tf.benchmarks import contest, ctc_reference, measurement
from ds2_tf.benchmarks.contest import Result
from ds2_tf.benchmarks.measurement import Times
from ds2_tf.benchmarks.torch_client import TorchClient
from ds2_tf.errors import UserError
from ds2_tf.native import ops as native
from ds2_tf.ops import ctc_portable
from ds2_tf.ops.ctc import ctc_loss

_TORCH = "torch log_softmax + ctc_loss"


class Case(NamedTuple):
    """Sizes: `symbols` V count the blank; `scale` is the logits' standard deviation."""

    batch_size: int = 32
    num_frames: int = 400
    symbols: int = 29
    num_labels: int = 60
    scale: float = 1.0

    def __str__(self) -> str:
        """Names the case as in reports."""
        peaky = f", peaky ({self.scale:g} x noise)" if self.scale > 1 else ""
        return (
            f"CTC B={self.batch_size} T={self.num_frames} V={self.symbols} "
            f"U={self.num_labels}{peaky}"
        )


CASES = {
    "letters": Case(),
    "characters": Case(symbols=6000, num_labels=20),
    "peaky": Case(scale=10.0),
}

Gradient = Callable[[], tf.Tensor]
LossFunction = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]


class _Layout(NamedTuple):
    """How a loss likes its logits best; nobody is made to transpose."""

    time_major: bool = False
    blank_last: bool = False

    def apply(self, logits: np.ndarray) -> np.ndarray:
        """Returns logits [B, T, V] with blank 0 in this layout."""
        logits = np.roll(logits, -1, 2) if self.blank_last else logits
        return np.ascontiguousarray(logits.swapaxes(0, 1)) if self.time_major else logits

    def undo(self, gradient: np.ndarray) -> np.ndarray:
        """Returns it as [B, T, V] with blank 0."""
        gradient = gradient.swapaxes(0, 1) if self.time_major else gradient
        return np.roll(gradient, 1, 2) if self.blank_last else gradient


def measure(
    case: Case,
    repetitions: int,
    torch: TorchClient | None,
    *,
    dense: bool = True,
    num_checked: int = 2,
) -> list[Result]:
    """Returns the results of all contenders, ours first.

    Args:
      case: sizes.
      repetitions: rounds.
      torch: PyTorch's process, if there is one.
      dense: whether the slow ones, which take dense labels, are contenders.
      num_checked: utterances whose gradients are compared with float64.

    Raises:
      UserError: the native operations can't be used here.
    """
    if native.load() is None:
        raise UserError("the native operations are not used here; the log says why")
    generator = np.random.default_rng(0)
    shape = (case.batch_size, case.num_frames, case.symbols)
    logits = case.scale * generator.standard_normal(shape, np.float32)
    labels = generator.integers(1, case.symbols, (case.batch_size, case.num_labels), np.int32)
    exact = ctc_reference.gradient(logits[:num_checked], labels[:num_checked])
    errors: dict[str, float] = {}
    contenders = {n: c for n, c in _CONTENDERS.items() if dense or n not in _DENSE}
    timers = {
        name: _timer(name, _work(loss, layout.apply(logits), labels), layout, exact, errors)
        for name, (loss, layout) in contenders.items()
    }
    with _torch_work(torch, logits, labels) as torch_timer:
        if torch is not None and torch_timer is not None:
            timers[_TORCH] = torch_timer
            by_logits = torch.gradient(_TORCH, num_checked).swapaxes(0, 1)
            errors[_TORCH] = float(np.abs(by_logits - exact).max())
        times = contest.in_turn(timers, repetitions)
    ours = next(iter(contenders))
    return [
        Result(name, times.get(name), errors.get(name), is_ours=name == ours)
        for name in (*contenders, _TORCH)
    ]


def _work(loss: LossFunction, logits: np.ndarray, labels: np.ndarray) -> Gradient:
    """Returns what computes the loss and its gradient, traced already."""
    batch_size, num_labels = labels.shape
    num_frames = logits.size // logits.shape[2] // batch_size
    inputs = tf.constant(logits)
    logit_lengths, label_lengths = (tf.fill([batch_size], n) for n in (num_frames, num_labels))
    dense_labels = tf.constant(labels)

    @tf.function(autograph=False)
    def work() -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            losses = loss(inputs, logit_lengths, dense_labels, label_lengths)
        return tape.gradient(losses, inputs)

    work.get_concrete_function()
    return work


def _timer(
    name: str, work: Gradient, layout: _Layout, exact: np.ndarray, errors: dict[str, float]
) -> Callable[[], Times]:
    """Returns what times the work; the first time it notes the gradient's error, too."""

    def timer() -> Times:
        found: list[tf.Tensor] = []
        times = measurement.once(lambda: found.append(work()))
        if name not in errors:
            rows = found[0][:, : len(exact)] if layout.time_major else found[0][: len(exact)]
            errors[name] = float(np.abs(layout.undo(rows.numpy()) - exact).max())
        return times

    return timer


@contextlib.contextmanager
def _torch_work(
    torch: TorchClient | None, logits: np.ndarray, labels: np.ndarray
) -> Iterator[Callable[[], Times] | None]:
    """Gives PyTorch the inputs, and takes them away afterwards."""
    if torch is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "inputs.npz")
        np.savez(
            path,
            logits=_Layout(time_major=True).apply(logits),
            labels=labels,
            logit_lengths=np.full(len(labels), logits.shape[1]),
            label_lengths=np.full(len(labels), labels.shape[1]),
        )
        timer = torch.prepare(_TORCH, "ctc", path=str(path))
    yield timer
    torch.forget(_TORCH)


def _sparse(
    logits: tf.Tensor, logit_lengths: tf.Tensor, labels: tf.Tensor, label_lengths: tf.Tensor
) -> tf.Tensor:
    positions = tf.where(tf.sequence_mask(label_lengths, tf.shape(labels)[1]))
    values = tf.gather_nd(labels, positions) - 1
    sparse = tf.SparseTensor(positions, values, tf.shape(labels, out_type=tf.int64))
    return tf.nn.ctc_loss(sparse, logits, None, logit_lengths, blank_index=-1)


def _dense(
    logits: tf.Tensor, logit_lengths: tf.Tensor, labels: tf.Tensor, label_lengths: tf.Tensor
) -> tf.Tensor:
    return tf.nn.ctc_loss(labels, logits, label_lengths, logit_lengths, blank_index=0)


def _keras(
    logits: tf.Tensor, logit_lengths: tf.Tensor, labels: tf.Tensor, label_lengths: tf.Tensor
) -> tf.Tensor:
    return keras.ops.ctc_loss(labels, logits, label_lengths, logit_lengths, mask_index=0)


_CONTENDERS: dict[str, tuple[LossFunction, _Layout]] = {
    "native": (ctc_loss, _Layout()),
    "tf.nn.ctc_loss sparse": (_sparse, _Layout(time_major=True, blank_last=True)),
    "TensorFlow float64 (ops.ctc_portable)": (ctc_portable.ctc_loss, _Layout()),
    "tf.nn.ctc_loss dense": (_dense, _Layout(time_major=True)),
    "keras.ops.ctc_loss": (_keras, _Layout()),
}
_DENSE = ("tf.nn.ctc_loss dense", "keras.ops.ctc_loss")
