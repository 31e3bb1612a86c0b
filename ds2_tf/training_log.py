"""What a run tells of itself: metrics.jsonl, TensorBoard, a picture of the learning curve."""

import json
import os
import pathlib
from typing import Any

import tensorflow as tf

from ds2_tf import atomic


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
