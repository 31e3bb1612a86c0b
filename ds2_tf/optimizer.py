"""Optimizers for gradients that are already summed over the replicas."""

import dataclasses
from typing import Any

import keras


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """How gradients become steps.

    Attributes:
      name: "sgd" (Nesterov momentum, the paper's), "adam" or "adamw".
      momentum: of SGD (0.99 in Deep Speech 2, section 6).
      weight_decay: of AdamW; kernels shrink by this share of the learning rate at each step.
      clip_norm: longer gradients of the whole batch are shortened to this norm (400 in the paper).
    """

    name: str = "sgd"
    momentum: float = 0.99
    weight_decay: float = 0.01
    clip_norm: float = 400.0

    def __post_init__(self) -> None:
        """Rejects unknown names and norms that stop all training."""
        if self.name not in _MAKERS:
            raise ValueError(
                f"optimizer name must be one of {(*_MAKERS,)}. Received: {self.name!r}"
            )
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must lie in [0, 1). Received: {self.momentum}")
        if self.weight_decay < 0:
            raise ValueError(f"weight_decay must be >= 0. Received: {self.weight_decay}")
        if self.clip_norm <= 0:
            raise ValueError(f"clip_norm must be > 0. Received: {self.clip_norm}")


class _SummedGradients:
    """Leaves out Keras's own all-reduce: clipping comes between the sum and the step.

    Keras would clip each replica's gradient before summing, and so give other weights on two
    replicas than on one.
    """

    def _all_reduce_sum_gradients(self, grads_and_vars: Any) -> Any:
        return grads_and_vars


class _Sgd(_SummedGradients, keras.optimizers.SGD):
    pass


class _Adam(_SummedGradients, keras.optimizers.Adam):
    pass


class _AdamW(_SummedGradients, keras.optimizers.AdamW):
    pass


def _sgd(config: OptimizerConfig) -> keras.optimizers.Optimizer:
    return _Sgd(learning_rate=0.0, momentum=config.momentum, nesterov=True, name="sgd")


def _adam(_: OptimizerConfig) -> keras.optimizers.Optimizer:
    return _Adam(learning_rate=0.0, name="adam")


def _adamw(config: OptimizerConfig) -> keras.optimizers.Optimizer:
    optimizer = _AdamW(learning_rate=0.0, weight_decay=config.weight_decay, name="adamw")
    optimizer.exclude_from_weight_decay(var_names=["bias", "beta", "gamma"])
    return optimizer


_MAKERS = {"sgd": _sgd, "adam": _adam, "adamw": _adamw}


def make(config: OptimizerConfig) -> keras.optimizers.Optimizer:
    """Returns the optimizer; the training loop sets its learning rate before each step."""
    return _MAKERS[config.name](config)
