"""Times of actions taken in turn, and the rows in which benchmarks tell their results."""

import dataclasses
import json
import os
import statistics
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

from ds2_tf import atomic

_Name = TypeVar("_Name", bound=Hashable)


@dataclasses.dataclass(frozen=True)
class Times:
    """How long something takes.

    Attributes:
      wall_seconds: by the clock; includes waiting for others on a shared machine.
      cpu_seconds: of all threads of this process together.
    """

    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0

    def __add__(self, other: "Times") -> "Times":
        return Times(self.wall_seconds + other.wall_seconds, self.cpu_seconds + other.cpu_seconds)

    def __sub__(self, other: "Times") -> "Times":
        return Times(self.wall_seconds - other.wall_seconds, self.cpu_seconds - other.cpu_seconds)

    def __truediv__(self, divisor: float) -> "Times":
        return Times(self.wall_seconds / divisor, self.cpu_seconds / divisor)


@dataclasses.dataclass(frozen=True)
class Row:
    """One result, as `tools/bench_*.py --json` writes it.

    Attributes:
      case: what was measured.
      metric: in which respect, with the unit.
      ours: the value.
      best_peer: with what it is compared; None for nothing.
      peer_value: its value.
      speedup: how many times as fast ours is; None where that makes no sense.
    """

    case: str
    metric: str
    ours: float
    best_peer: str | None = None
    peer_value: float | None = None
    speedup: float | None = None


def save_rows(rows: Sequence[Row], path: str | os.PathLike) -> None:
    """Writes the rows as a JSON list."""
    with atomic.open_for_write(path) as file:
        json.dump([dataclasses.asdict(row) for row in rows], file, indent=1)
        file.write("\n")


def limit_threads(num_threads: int) -> None:
    """Sets TensorFlow's threads, within an operation and of operations; 0 leaves them alone."""
    if num_threads:
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(num_threads)
        tf.config.threading.set_inter_op_parallelism_threads(num_threads)


def once(action: Callable[[], object]) -> Times:
    """Returns how long an action takes, until all devices are done with it."""
    import tensorflow as tf

    wall, cpu = time.perf_counter(), time.process_time()
    action()
    tf.test.experimental.sync_devices()
    return Times(time.perf_counter() - wall, time.process_time() - cpu)


def in_turn(actions: Mapping[_Name, Callable[[], object]], repetitions: int) -> dict[_Name, Times]:
    """Returns the median times of actions that are taken in turn: A B A B ...

    So whatever else the machine does meets all of them alike. One round before the others, not
    counted, is for what happens only once.
    """
    if repetitions < 1:
        raise ValueError(f"repetitions must be >= 1. Received: {repetitions}")
    for action in actions.values():
        action()
    found: dict[_Name, list[Times]] = {name: [] for name in actions}
    for _ in range(repetitions):
        for name, action in actions.items():
            found[name].append(once(action))
    return {
        name: Times(
            statistics.median(t.wall_seconds for t in times),
            statistics.median(t.cpu_seconds for t in times),
        )
        for name, times in found.items()
    }


def table(rows: Sequence[Row]) -> str:
    """Returns cases, metrics and values to read, and with what they are compared."""
    case = max(len(row.case) for row in rows)
    metric = max(len(row.metric) for row in rows)
    lines = []
    for row in rows:
        line = f"{row.case:<{case}}  {row.metric:<{metric}}  {row.ours:>10.4g}"
        if row.best_peer is not None:
            line += f"{row.peer_value:>10.4g} {row.best_peer}"
        lines.append(line)
    return "\n".join(lines)
