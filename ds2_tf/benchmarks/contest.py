"""Ours and its peers at the same work, timed in turn."""

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence

from ds2_tf.benchmarks.measurement import Row, Times

NOT_INSTALLED = "not installed"
_METRICS = {"CPU seconds": "cpu_seconds", "wall seconds": "wall_seconds"}


@dataclasses.dataclass(frozen=True)
class Result:
    """How one contender fared.

    Attributes:
      name: of the contender.
      times: medians; None for what is not installed.
      gradient_error: largest absolute difference from float64; None where it wasn't looked at.
      group: ours is compared with the peers of its own group (a precision, say).
      is_ours: whether it is one of ours.
    """

    name: str
    times: Times | None
    gradient_error: float | None = None
    group: str = "float32"
    is_ours: bool = False


def in_turn(
    timers: Mapping[str, Callable[[], Times]], repetitions: int, slow_seconds: float = 4.0
) -> dict[str, Times]:
    """Returns the median times of contenders that take turns: A B A B ...

    One round before the others is for what happens only once. It counts for those alone that took
    longer than `slow_seconds` in it; they take part in each fifth of the other rounds.
    """
    if repetitions < 1:
        raise ValueError(f"repetitions must be >= 1. Received: {repetitions}")
    found: dict[str, list[Times]] = {}
    for name, timer in timers.items():
        first = timer()
        found[name] = [first] if first.wall_seconds > slow_seconds else []
    slow = {name for name, times in found.items() if times}
    for number in range(1, repetitions + 1):
        for name, timer in timers.items():
            if name not in slow or number % 5 == 0:
                found[name].append(timer())
    return {
        name: Times(
            statistics.median(t.wall_seconds for t in times),
            statistics.median(t.cpu_seconds for t in times),
        )
        for name, times in found.items()
    }


def rows(case: str, results: Sequence[Result]) -> list[Row]:
    """Returns each of ours beside the best peer of its group and of the first group (float32)."""
    found = []
    for ours in (r for r in results if r.is_ours):
        assert ours.times is not None
        title = f"{case}, {ours.name}"
        for group in dict.fromkeys((ours.group, results[0].group)):
            peers = [r for r in results if not r.is_ours and r.group == group]
            for metric, attribute in _METRICS.items():
                value = getattr(ours.times, attribute)
                values = {r.name: getattr(r.times, attribute) for r in peers if r.times}
                if not values:
                    found.append(Row(title, metric, value))
                    continue
                best = min(values, key=values.__getitem__)
                found.append(Row(title, metric, value, best, values[best], values[best] / value))
        if ours.gradient_error is not None:
            errors = {
                r.name: r.gradient_error
                for r in results
                if not r.is_ours and r.gradient_error is not None
            }
            best_error = min(errors, key=errors.__getitem__) if errors else None
            found.append(
                Row(
                    title,
                    "largest gradient error",
                    ours.gradient_error,
                    best_error,
                    errors[best_error] if best_error else None,
                )
            )
    return found


def table(case: str, results: Sequence[Result]) -> str:
    """Returns the contenders' times, as multiples of the first of ours too."""
    with_errors = any(r.gradient_error is not None for r in results)
    ours = next(r.times for r in results if r.is_ours)
    assert ours is not None
    header = f"{'':<42}{'CPU ms':>10}{'wall ms':>10}{'x CPU':>8}{'x wall':>8}"
    lines = [case, header + ("  gradient error" if with_errors else "")]
    for result in results:
        if result.times is None:
            lines.append(f"  {result.name:<40}{NOT_INSTALLED:>20}")
            continue
        cpu, wall = result.times.cpu_seconds, result.times.wall_seconds
        line = (
            f"  {result.name:<40}{1e3 * cpu:>10.1f}{1e3 * wall:>10.1f}"
            f"{cpu / ours.cpu_seconds:>8.2f}{wall / ours.wall_seconds:>8.2f}"
        )
        if result.gradient_error is not None:
            line += f"{result.gradient_error:>16.1e}"
        lines.append(line)
    return "\n".join(lines)
