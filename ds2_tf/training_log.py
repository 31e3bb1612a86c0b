"""What a run tells of itself: metrics.jsonl, TensorBoard, a picture of the learning curve."""

import json
import os
import pathlib
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf
from absl import logging

from ds2_tf import atomic
from ds2_tf.evaluation_report import UtteranceResult

NUM_SAMPLES = 5

_Batch = TypeVar("_Batch")


class TrainingLog:
    """Appends rows of metrics to a workdir's files."""

    def __init__(
        self, workdir: str | os.PathLike, resume_step: int = 0, resume_epoch: int = 0
    ) -> None:
        """Opens the files, and drops the rows that training is going to repeat.

        These come after `resume_step`, or tell of an epoch after `resume_epoch`.
        """
        folder = pathlib.Path(workdir)
        self._metrics_path = folder / "metrics.jsonl"
        self._curve_path = folder / "learning_curve.png"
        self.rows = [
            row
            for row in read(self._metrics_path)
            if row["step"] <= resume_step and row.get("epoch", 0) <= resume_epoch
        ]
        with atomic.open_for_write(self._metrics_path) as file:
            file.writelines(json.dumps(row) + "\n" for row in self.rows)
        self._tensorboard = tf.summary.create_file_writer(str(folder / "tensorboard"))

    def write(self, step: int, values: dict[str, Any]) -> None:
        """Adds a row; the numbers go to TensorBoard, too."""
        row = {"step": step, **values}
        self.rows.append(row)
        with open(self._metrics_path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        with self._tensorboard.as_default(step):
            for name, value in values.items():
                tf.summary.scalar(name, value)
        self._tensorboard.flush()

    def write_samples(self, step: int, results: Sequence[UtteranceResult]) -> None:
        """Shows what the model writes for the first utterances, here and in TensorBoard."""
        shown = [(r.reference, r.hypothesis) for r in results[:NUM_SAMPLES]]
        for reference, hypothesis in shown:
            logging.info("said: %s | written: %s", reference, hypothesis)
        table = "\n".join(f"| {said} | {written} |" for said, written in shown)
        with self._tensorboard.as_default(step):
            tf.summary.text("dev_samples", f"| said | written |\n| --- | --- |\n{table}")
        self._tensorboard.flush()

    def draw(self) -> None:
        """Writes `learning_curve.png`: the loss by step, the error rates by epoch."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 4), layout="constrained")
        loss_axes, error_axes = figure.subplots(1, 2)
        losses = [row for row in self.rows if "loss" in row]
        loss_axes.plot([r["step"] for r in losses], [r["loss"] for r in losses], linewidth=1)
        loss_axes.set(xlabel="step", ylabel="CTC loss an utterance (nats)", yscale="log")
        errors = [row for row in self.rows if "dev_wer" in row]
        for key, label in (("dev_wer", "word error rate"), ("dev_cer", "character error rate")):
            values = [row[key] for row in errors]
            error_axes.plot([r["step"] for r in errors], values, marker="o", label=label)
        error_axes.set(xlabel="step", ylabel="error rate, dev set", ylim=(0, None))
        if errors:
            error_axes.legend()
        for axes in (loss_axes, error_axes):
            axes.grid(alpha=0.3)
        with atomic.open_for_write(self._curve_path, "wb") as file:
            figure.savefig(file, format="png", dpi=110)


def read(path: str | os.PathLike) -> list[dict[str, Any]]:
    """Returns the rows of a metrics.jsonl; a last line that was cut off is left out."""
    if not os.path.exists(path):
        return []
    rows = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                rows.append(json.loads(line))
    return rows


class Meter:
    """Means over the steps since the last row of the log, and how fast they were."""

    def __init__(self, seconds_per_frame: float) -> None:
        self._seconds_per_frame = seconds_per_frame
        self.restart()

    def restart(self) -> None:
        """Forgets all steps and begins to measure the time."""
        self._steps: list[dict[str, float]] = []
        self._waited = 0.0
        self._start = time.monotonic()

    def waiting_for(self, batches: Iterable[_Batch]) -> Iterator[_Batch]:
        """Yields the batches and measures how long training waits for them."""
        iterator = iter(batches)
        while True:
            asked = time.monotonic()
            batch = next(iterator, None)
            self._waited += time.monotonic() - asked
            if batch is None:
                return
            yield batch

    def add(self, **values: float) -> None:
        """Adds a step: loss, gradient_norm, learning_rate, num_frames, clipped, skipped."""
        self._steps.append(values)

    def pace(self) -> str:
        """Returns the speed in words."""
        return f"{self._audio_seconds() / self._seconds():.0f} s audio/s"

    def take(self) -> dict[str, float]:
        """Returns the row of the log, and begins the next one.

        Losses and norms are means over the steps that were not left out; missing if all were.
        """
        kept = [step for step in self._steps if not step["skipped"]]
        row = {
            name: float(np.mean([step[name] for step in kept]))
            for name in ("loss", "gradient_norm")
            if kept
        }
        row |= {
            "clipped_share": float(np.mean([step["clipped"] for step in self._steps])),
            "skipped_steps": float(sum(step["skipped"] for step in self._steps)),
            "learning_rate": self._steps[-1]["learning_rate"],
            "audio_seconds_per_second": self._audio_seconds() / self._seconds(),
            "steps_per_second": len(self._steps) / self._seconds(),
            "input_stall_share": self._waited / self._seconds(),
        }
        self.restart()
        return row

    def _audio_seconds(self) -> float:
        return self._seconds_per_frame * sum(step["num_frames"] for step in self._steps)

    def _seconds(self) -> float:
        return max(time.monotonic() - self._start, 1e-9)
