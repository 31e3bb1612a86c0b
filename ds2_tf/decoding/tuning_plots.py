"""Pictures of a tuning: where the errors are fewest, what speed costs, what confidence is worth."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ds2_tf import atomic
from ds2_tf.decoding.calibration import Reliability
from ds2_tf.decoding.tuning import Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def heat_map(trials: Sequence[Trial], spaced: bool, path: str | os.PathLike) -> None:
    """Writes a PNG of the error rate over both weights, interpolated between all trials."""
    figure = _new_figure()
    axes = figure.add_subplot()
    x = np.array([trial.options.lm_weight for trial in trials])
    y = np.array([trial.options.word_bonus for trial in trials])
    rates = np.array([_rate(trial, spaced) for trial in trials])
    if len(set(x)) > 1 and len(set(y)) > 1:
        filled = axes.tricontourf(x, y, 100 * rates, levels=20, cmap="viridis_r")
        figure.colorbar(filled, label=f"{_name(spaced)} (%)")
    axes.scatter(x, y, s=8, color="white", edgecolors="black", linewidths=0.5)
    best = int(np.argmin(rates))
    axes.scatter(x[best], y[best], s=80, marker="*", color="red")
    axes.annotate(f" {rates[best]:.2%}", (x[best], y[best]), color="red")
    axes.set(xlabel="lm_weight (alpha)", ylabel="word_bonus (beta)")
    _save(figure, path)


def frontier(trials: Sequence[Trial], spaced: bool, path: str | os.PathLike) -> None:
    """Writes a PNG of the error rate against the time, a line for each score threshold."""
    figure = _new_figure()
    axes = figure.add_subplot()
    for threshold in sorted({trial.options.score_threshold for trial in trials}):
        line = [trial for trial in trials if trial.options.score_threshold == threshold]
        line.sort(key=lambda trial: trial.options.beam_width)
        times = [trial.milliseconds for trial in line]
        rates = [100 * _rate(trial, spaced) for trial in line]
        axes.plot(times, rates, marker="o", label=f"score threshold {threshold:g}")
        for trial, time, rate in zip(line, times, rates, strict=True):
            axes.annotate(str(trial.options.beam_width), (time, rate), fontsize=7)
    axes.set(
        xscale="log",
        xlabel="CPU time an utterance (ms, median); the points' numbers are beam widths",
        ylabel=f"{_name(spaced)} (%)",
    )
    axes.grid(alpha=0.3)
    axes.legend()
    _save(figure, path)


def reliability(results: Mapping[str, Reliability], path: str | os.PathLike) -> None:
    """Writes a PNG of the share of right words over their confidence, a line for each set."""
    figure = _new_figure()
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color="gray", linestyle=":")
    for name, result in results.items():
        label = f"{name} (expected calibration error {result.expected_error:.3f})"
        is_full = result.counts > 0
        x, y = result.confidences[is_full], result.accuracies[is_full]
        (line,) = axes.plot(x, y, label=label)
        sizes = 200 * result.counts[is_full] / result.counts.max(initial=1)
        axes.scatter(x, y, sizes, color=line.get_color())
    axes.set(
        xlabel="confidence (the larger a point, the more words)",
        ylabel="share of right words",
        xlim=(0, 1),
        ylim=(0, 1),
    )
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center")
    _save(figure, path)


def _rate(trial: Trial, spaced: bool) -> float:
    return trial.word_error_rate if spaced else trial.character_error_rate


def _name(spaced: bool) -> str:
    return "word error rate" if spaced else "character error rate"


def _new_figure() -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(7, 5), layout="constrained")


def _save(figure: "Figure", path: str | os.PathLike) -> None:
    with atomic.open_for_write(path, "wb") as file:
        figure.savefig(file, format="png", dpi=120)
