"""The learning rate."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class ScheduleConfig:
    """How the learning rate moves.

    Attributes:
      learning_rate: at its highest.
      anneal: the rate is divided by it after each epoch (1.2 in Deep Speech 2, section 6).
      warmup_steps: steps over which the rate rises from 0; 0 for none.
    """

    learning_rate: float = 3e-4
    anneal: float = 1.2
    warmup_steps: int = 0

    def __post_init__(self) -> None:
        """Rejects rates that cannot train."""
        if self.learning_rate <= 0 or self.anneal < 1 or self.warmup_steps < 0:
            raise ValueError(
                "learning_rate must be > 0, anneal >= 1 and warmup_steps >= 0. Received: "
                f"{self.learning_rate}, {self.anneal}, {self.warmup_steps}"
            )


def learning_rate(config: ScheduleConfig, step: int, epoch: int) -> float:
    """Returns the learning rate of a step; step and epoch count from 0."""
    rate = config.learning_rate / config.anneal**epoch
    if step < config.warmup_steps:
        rate *= (step + 1) / config.warmup_steps
    return rate
