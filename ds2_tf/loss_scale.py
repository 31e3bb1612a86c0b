"""The factor that keeps gradients in half precision from vanishing."""

import dataclasses

_GOOD_STEPS = 2000


@dataclasses.dataclass
class LossScale:
    """A loss scale that follows the gradients; saved with each checkpoint.

    It is halved after a gradient that overflowed, and doubled after 2,000 steps without one. With
    `value` 1 it stays.

    Source: Micikevicius et al. 2018, section 3.2.

    Attributes:
      value: what the loss is multiplied by, a power of two.
      good_steps: steps since it last changed.
    """

    value: float = 1.0
    good_steps: int = 0

    @classmethod
    def for_precision(cls, precision: str) -> "LossScale":
        """Returns where the scale begins: 2 ** 15 for "float16", 1 for precisions without need."""
        return cls(2.0**15 if precision == "float16" else 1.0)

    def grow(self) -> None:
        """Counts a step whose gradients were finite."""
        if self.value == 1:
            return
        self.good_steps += 1
        if self.good_steps == _GOOD_STEPS:
            self.value, self.good_steps = 2 * self.value, 0

    def shrink(self) -> bool:
        """Halves the scale after an overflow; returns False when it is 1 and cannot sink."""
        if self.value == 1:
            return False
        self.value, self.good_steps = self.value / 2, 0
        return True
