"""What a LiteRT file costs, and how well it recognises."""

import dataclasses
import json
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ds2_tf import metrics
from ds2_tf.alphabet import Alphabet
from ds2_tf.benchmarks.measurement import Row
from ds2_tf.errors import UserError

_ROOT = pathlib.Path(__file__).parents[2]
_FLOAT32 = "none"


@dataclasses.dataclass(frozen=True)
class Result:
    """How a file fared with a set of recordings.

    Attributes:
      size_bytes: of the file.
      words: errors.
      sentences: how many texts had one.
      num_sentences: how many texts there are.
      real_time_factor: seconds of computing for a second of sound.
      peak_bytes: memory that it takes beyond Python and its libraries.
    """

    size_bytes: int
    words: metrics.ErrorCounts
    sentences: int
    num_sentences: int
    real_time_factor: float
    peak_bytes: int


def measure(
    path: str | os.PathLike,
    utterances: Sequence[tuple[np.ndarray, str]],
    alphabet: Alphabet,
    sample_rate_hz: int,
    *,
    python: str,
    threads: int,
) -> Result:
    """Recognises (waveform, transcript) pairs with a file in a process of its own.

    Args:
      path: the file.
      utterances: waveforms [S] float32 and what they say.
      alphabet: the model's.
      sample_rate_hz: the waveforms'.
      python: one that has ai-edge-litert and numpy.
      threads: how many may compute.

    Raises:
      UserError: when that process fails, as without ai-edge-litert.
    """
    with tempfile.TemporaryDirectory() as folder:
        waveforms = pathlib.Path(folder, "waveforms.npz")
        arrays: dict[str, Any] = {f"{i:06d}": samples for i, (samples, _) in enumerate(utterances)}
        np.savez(waveforms, **arrays)
        done = subprocess.run(
            [python, "-m", "tools.litert_worker", str(path), str(waveforms), str(threads)],
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        reason = done.stderr.strip().rpartition("\n")[2]
        raise UserError(
            f"{python}: cannot recognise with LiteRT ({reason}); name a Python with ai-edge-litert "
            "and numpy"
        )
    answer = json.loads(done.stdout)
    errors = [
        metrics.word_errors(alphabet.normalize(transcript), text)
        for (_, transcript), text in zip(utterances, answer["texts"], strict=True)
    ]
    seconds = sum(len(waveform) for waveform, _ in utterances) / sample_rate_hz
    return Result(
        os.path.getsize(path),
        metrics.total(errors),
        sum(count.edits > 0 for count in errors),
        len(errors),
        answer["seconds"] / seconds,
        answer["peak_bytes"],
    )


def table(case: str, results: Mapping[str, Result]) -> str:
    """Returns the results of each precision to read."""
    lines = [f"{case:<16}{'MiB':>8}{'WER %':>8}{'sentences %':>13}{'RTF':>9}{'memory MiB':>12}"]
    for name, result in results.items():
        lines.append(
            f"  {_title(name):<14}{result.size_bytes / 2**20:>8.2f}"
            f"{100 * result.words.rate:>8.2f}"
            f"{100 * result.sentences / max(1, result.num_sentences):>13.2f}"
            f"{result.real_time_factor:>9.4f}{result.peak_bytes / 2**20:>12.1f}"
        )
    return "\n".join(lines)


def rows(case: str, results: Mapping[str, Result]) -> list[Row]:
    """Returns each precision beside float32."""
    found = []
    for name, result in results.items():
        for metric, ours, peer in (
            ("file bytes", result.size_bytes, results[_FLOAT32].size_bytes),
            ("word error rate", result.words.rate, results[_FLOAT32].words.rate),
            (
                "sentence error rate",
                result.sentences / max(1, result.num_sentences),
                results[_FLOAT32].sentences / max(1, result.num_sentences),
            ),
            (
                "real-time factor",
                result.real_time_factor,
                results[_FLOAT32].real_time_factor,
            ),
            ("peak bytes", result.peak_bytes, results[_FLOAT32].peak_bytes),
        ):
            speedup = peer / ours if metric == "real-time factor" else None
            found.append(
                Row(f"{case}, {_title(name)}", metric, ours, _title(_FLOAT32), peer, speedup)
            )
    return found


def _title(precision: str) -> str:
    return "float32" if precision == _FLOAT32 else precision
