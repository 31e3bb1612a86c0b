"""What the recurrent and the convolution layers cost with their gradients, ours and others'."""

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from ds2_tf.benchmarks import contest, measurement
from ds2_tf.benchmarks.contest import Result
from ds2_tf.benchmarks.measurement import Times
from ds2_tf.benchmarks.torch_client import TorchClient
from ds2_tf.errors import UserError
from ds2_tf.layers.recurrent import Recurrent
from ds2_tf.model import POLICIES
from ds2_tf.native import ops as native
from ds2_tf.ops.convolution import convolution

NATIVE, TENSORFLOW, TORCH = "native", "TensorFlow", "torch"
_LAYOUTS = {"NCHW": False, "channels-last": True}
_PASSES = ("forward", "input gradient", "kernel gradient")
_BEST_LAYOUTS = "torch, best layout of each pass"


class RecurrenceCase(NamedTuple):
    """A bidirectional simple recurrence over as many inputs as units, unshared input weights."""

    batch_size: int = 16
    num_frames: int = 400
    units: int = 512

    def __str__(self) -> str:
        """Names the case as in reports."""
        return f"recurrence B={self.batch_size} T={self.num_frames} H={self.units}"


class ConvolutionCase(NamedTuple):
    """A convolution; its input gets a gradient unless it is the features, of one channel."""

    input_shape: tuple[int, int, int, int]
    kernel_shape: tuple[int, int, int, int]
    stride: tuple[int, int]

    def __str__(self) -> str:
        """Names the case as in reports."""
        time, frequency, channels, filters = self.kernel_shape
        gradients = "both gradients" if self.input_gradient else "kernel gradient only"
        return (
            f"convolution {time}x{frequency} stride {self.stride[0]}x{self.stride[1]} "
            f"C={channels} N={filters} on {[*self.input_shape]}, {gradients}"
        )

    @property
    def input_gradient(self) -> bool:
        """Whether the input gets a gradient."""
        return self.input_shape[-1] > 1


CASES: dict[str, RecurrenceCase | ConvolutionCase] = {
    "rnn512": RecurrenceCase(units=512),
    "rnn1280": RecurrenceCase(units=1280),
    "conv1": ConvolutionCase((16, 800, 161, 1), (11, 41, 1, 32), (2, 2)),
    "conv2": ConvolutionCase((16, 400, 81, 32), (11, 21, 32, 32), (1, 2)),
}

Work = Callable[[], Any]
_Timers = dict[tuple[str, str], Callable[[], Times]]  # of (name, precision)


def measure(
    case: RecurrenceCase | ConvolutionCase,
    precisions: Sequence[str],
    repetitions: int,
    torch: TorchClient | None,
) -> list[Result]:
    """Returns the results of all contenders in all precisions, ours first.

    Raises:
      UserError: the native operations can't be used here.
    """
    if native.load() is None:
        raise UserError("the native operations are not used here; the log says why")
    timers: _Timers = {}
    for precision in precisions:
        for name in (NATIVE, TENSORFLOW):
            with contextlib.nullcontext() if name == NATIVE else native.portable():
                work = _work(case, precision)
            timers[name, precision] = functools.partial(measurement.once, work)
        if torch is not None:
            timers.update(_torch_timers(case, precision, torch))
    times = contest.in_turn({f"{n} {p}": timer for (n, p), timer in timers.items()}, repetitions)
    results = []
    for precision in precisions:
        found = {name: times[f"{name} {p}"] for name, p in timers if p == precision}
        found = _sum_of_passes(case, found) if isinstance(case, ConvolutionCase) else found
        for name in (*found, *([] if torch else [TORCH])):
            title = f"{name} {precision}"
            is_ours = name == NATIVE
            results.append(Result(title, found.get(name), None, precision, is_ours))
    if torch is not None:
        for name, precision in timers:
            if name.startswith(TORCH):
                torch.forget(f"{name} {precision}")
    return results


def _work(case: RecurrenceCase | ConvolutionCase, precision: str) -> Work:
    """Returns what runs ours forward and backward; by which operations is decided now."""
    if isinstance(case, RecurrenceCase):
        return _recurrence(case, precision)
    return _convolution(case, precision)


def _recurrence(case: RecurrenceCase, precision: str) -> Work:
    layer = Recurrent(
        case.units, "rnn", batch_norm=False, shared_input=False, dtype=POLICIES[precision]
    )
    layer.build((case.batch_size, case.num_frames, case.units))
    shape = (case.batch_size, case.num_frames, case.units)
    x = tf.cast(tf.random.stateless_normal(shape, [0, 0]), layer.compute_dtype)
    by_y = tf.cast(tf.random.stateless_normal(shape, [0, 1]), layer.compute_dtype)
    lengths = tf.fill([case.batch_size], case.num_frames)
    weights = [variable.value for variable in layer.trainable_variables]

    def gradients() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, lengths)
        return tape.gradient(y, [x, *weights], by_y)

    return _traced(gradients)


def _convolution(case: ConvolutionCase, precision: str) -> Work:
    dtype = tf.dtypes.as_dtype(precision)
    x = tf.cast(tf.random.stateless_normal(case.input_shape, [0, 0]), dtype)
    kernel = tf.cast(tf.random.stateless_normal(case.kernel_shape, [0, 1]), dtype)
    lengths = tf.fill([case.input_shape[0]], case.input_shape[1])
    y_shape = convolution(x[:1, :1], lengths[:1] * 0, kernel, case.stride).shape
    num_frames = (case.input_shape[1] - 1) // case.stride[0] + 1
    y_shape = (case.input_shape[0], num_frames, *y_shape[2:])
    by_y = tf.cast(tf.random.stateless_normal(y_shape, [0, 2]), dtype)
    sources = [x, kernel] if case.input_gradient else [kernel]

    def gradients() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(sources)
            y = convolution(x, lengths, kernel, case.stride, case.input_gradient)
        return tape.gradient(y, sources, by_y)

    return _traced(gradients)


def _traced(work: Work) -> Work:
    function = tf.function(work, autograph=False)
    function.get_concrete_function()
    return function


def _torch_timers(
    case: RecurrenceCase | ConvolutionCase, precision: str, torch: TorchClient
) -> _Timers:
    """Returns what times PyTorch; a convolution's passes one by one in each memory layout."""
    if isinstance(case, RecurrenceCase):
        arguments: dict[str, Any] = {**case._asdict(), "dtype": precision}
        timer = torch.prepare(f"{TORCH} {precision}", "recurrence", **arguments)
        return {(TORCH, precision): timer}
    found = {}
    for layout, channels_last in _LAYOUTS.items():
        for only in _PASSES:
            if case.input_gradient or only != "input gradient":
                name = _pass_name(layout, only)
                arguments = {**case._asdict(), "dtype": precision}
                arguments |= {"channels_last": channels_last, "only": only}
                timer = torch.prepare(f"{name} {precision}", "convolution", **arguments)
                found[name, precision] = timer
    return found


def _sum_of_passes(case: ConvolutionCase, times: Mapping[str, Times]) -> dict[str, Times]:
    """Returns the times with PyTorch's passes added up: each layout, and the best for each."""
    found = {name: times[name] for name in (NATIVE, TENSORFLOW)}
    if len(times) == len(found):
        return found
    passes = [only for only in _PASSES if case.input_gradient or only != "input gradient"]
    for layout in _LAYOUTS:
        found[f"{TORCH} {layout}"] = sum(
            (times[_pass_name(layout, only)] for only in passes), Times()
        )
    best = [[times[_pass_name(layout, only)] for layout in _LAYOUTS] for only in passes]
    found[_BEST_LAYOUTS] = Times(
        sum(min(t.wall_seconds for t in each) for each in best),
        sum(min(t.cpu_seconds for t in each) for each in best),
    )
    return found


def _pass_name(layout: str, only: str) -> str:
    return f"{TORCH} {layout} {only}"
