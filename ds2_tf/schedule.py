"""The learning rate, and when to stop: functions of the dev set's scores so far."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple


class Score(NamedTuple):
    """Error rates on the dev set; lower is better.

    Attributes:
      first: of words; of characters in languages that don't separate words by spaces.
      second: the other one, which decides between equal ones.
    """

    first: float
    second: float


@dataclasses.dataclass(frozen=True)
class ScheduleConfig:
    """How the learning rate moves, and when training ends early.

    Attributes:
      learning_rate: at its highest.
      anneal: what the rate is divided by, each time (1.2 in Deep Speech 2, section 6).
      anneal_after: "epoch" to divide after each epoch (the paper's), "plateau" to divide whenever
        `plateau_epochs` epochs in a row brought no better score on the dev set.
      plateau_epochs: of "plateau".
      warmup_steps: steps over which the rate rises from 0; 0 for none.
      stop_after_epochs: training ends when so many epochs in a row brought no better score; 0 for
        never.
    """

    learning_rate: float = 3e-4
    anneal: float = 1.2
    anneal_after: str = "epoch"
    plateau_epochs: int = 1
    warmup_steps: int = 0
    stop_after_epochs: int = 0

    def __post_init__(self) -> None:
        """Rejects rates that cannot train."""
        if self.learning_rate <= 0 or self.anneal < 1 or self.warmup_steps < 0:
            raise ValueError(
                "learning_rate must be > 0, anneal >= 1 and warmup_steps >= 0. Received: "
                f"{self.learning_rate}, {self.anneal}, {self.warmup_steps}"
            )
        if self.anneal_after not in ("epoch", "plateau"):
            raise ValueError(
                f"anneal_after must be 'epoch' or 'plateau'. Received: {self.anneal_after!r}"
            )
        if self.plateau_epochs < 1 or self.stop_after_epochs < 0:
            raise ValueError(
                "plateau_epochs must be >= 1 and stop_after_epochs >= 0. Received: "
                f"{self.plateau_epochs}, {self.stop_after_epochs}"
            )

    @property
    def needs_scores(self) -> bool:
        """Whether there must be a dev set."""
        return self.anneal_after == "plateau" or self.stop_after_epochs > 0


def learning_rate(
    config: ScheduleConfig, step: int, epoch: int, scores: Sequence[Score] = ()
) -> float:
    """Returns the learning rate of a step.

    Args:
      config: the settings.
      step: from 0.
      epoch: from 0.
      scores: of the epochs before.
    """
    times = epoch
    if config.anneal_after == "plateau":
        times = _plateaus(scores, config.plateau_epochs)
    rate = config.learning_rate / config.anneal**times
    if step < config.warmup_steps:
        rate *= (step + 1) / config.warmup_steps
    return rate


def is_finished(config: ScheduleConfig, scores: Sequence[Score]) -> bool:
    """Returns whether the scores of the epochs so far say that training should end early."""
    return config.stop_after_epochs > 0 and _epochs_since_best(scores) >= config.stop_after_epochs


def _epochs_since_best(scores: Sequence[Score]) -> int:
    return len(scores) - 1 - scores.index(min(scores)) if scores else 0


def _plateaus(scores: Sequence[Score], patience: int) -> int:
    """Returns how often `patience` scores in a row were no better than the best before them."""
    count = waited = 0
    for i in range(1, len(scores)):
        waited = 0 if scores[i] < min(scores[:i]) else waited + 1
        if waited == patience:
            count, waited = count + 1, 0
    return count
