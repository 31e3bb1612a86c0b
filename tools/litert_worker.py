"""Recognises waveforms with a LiteRT file and measures that: what bench_litert runs.

Needs ai-edge-litert and numpy alone: python -m tools.litert_worker MODEL WAVEFORMS.npz THREADS.
Prints JSON: the text of each array, the seconds that they took, and the peak memory in bytes of the
process less what it needed before the model was loaded (Linux).
"""

import json
import sys
import time

import numpy as np

from export.litert_client import Recognizer


def main(model: str, waveforms_path: str, threads: str) -> None:
    """Recognises all waveforms, chunk by chunk as they would come."""
    before = _peak_bytes()
    recognizer = Recognizer(model, int(threads))
    chunk = recognizer.metadata["chunk_samples"]
    texts, seconds = [], 0.0
    with np.load(waveforms_path) as waveforms:
        for name in waveforms.files:
            samples = waveforms[name]
            start = time.perf_counter()
            for first in range(0, len(samples), chunk):
                recognizer.accept(samples[first : first + chunk])
            texts.append(recognizer.finish())
            seconds += time.perf_counter() - start
    print(json.dumps({"texts": texts, "seconds": seconds, "peak_bytes": _peak_bytes() - before}))


def _peak_bytes() -> int:
    # Unlike getrusage, this forgets what the parent process had.
    with open("/proc/self/status") as file:
        values = dict(line.split(":", 1) for line in file)
    return int(values["VmHWM"].split()[0]) * 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
