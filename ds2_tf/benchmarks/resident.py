"""How much memory a process holds, and held at most; Linux only, without any import of ds2_tf."""

import pathlib
import re
from collections.abc import Callable


def peak_bytes_above(work: Callable[[], object], repetitions: int = 2) -> int:
    """Returns by how much the peak resident set exceeds the one before the work.

    The peak is that of the whole process so far, so what is measured needs a process of its own.

    Args:
      work: what is done.
      repetitions: how often; what is allocated once and kept counts like the rest.
    """
    before = _bytes("VmRSS")
    for _ in range(repetitions):
        work()
    return _bytes("VmHWM") - before


def resident_bytes() -> int:
    """Returns the process's resident set."""
    return _bytes("VmRSS")


def _bytes(field: str) -> int:
    # Not getrusage: its maximum is inherited from the process that started this one.
    status = pathlib.Path("/proc/self/status").read_text()
    found = re.search(rf"{field}:\s*(\d+) kB", status)
    assert found is not None
    return 1024 * int(found[1])
