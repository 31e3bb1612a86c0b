"""What the tests of the benchmarks share."""

import pathlib
import subprocess
import sys

CLONE = pathlib.Path(__file__).parents[1]
RECORDINGS = CLONE / "tests" / "data" / "librispeech" / "manifest.jsonl"

TINY_RUN = {
    "features": {"sample_rate_hz": 8000},
    "model": {
        "conv_channels": (4,),
        "conv_kernels": ((5, 9),),
        "conv_strides": ((2, 4),),
        "rnn_layers": 1,
        "rnn_units": 16,
        "dropout": 0.3,
    },
    "batches": {"batch_size": 4, "num_buckets": 2},
    "augment": {"speed": (0.9, 1.1), "noise_share": 0.5},
}


def program_status(tool: str, *arguments: str) -> tuple[int, str]:
    """Returns a tool's exit status and what it wrote to stderr."""
    done = subprocess.run(
        [sys.executable, "-m", f"tools.{tool}", *arguments],
        cwd=CLONE,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr
