"""Layers that training leaves as they are."""

import fnmatch
from collections.abc import Sequence

import keras

from ds2_tf.errors import UserError


def freeze(network: keras.Model, patterns: Sequence[str]) -> list[str]:
    """Freezes the layers that a pattern matches, and returns their names.

    `network.trainable_variables` then leaves them out, and their batch normalisation neither uses
    the batch's statistics nor moves its running averages. Dropout goes on. Freeze before the
    optimizer is built and before the first step is traced.

    Args:
      network: the model.
      patterns: names of layers with weights, or patterns of `fnmatch` such as "conv_*". The batch
        normalisation of a layer belongs to it.

    Raises:
      UserError: when a pattern matches nothing, or all patterns together match everything; the
        network stays as it was.
    """
    layers = [layer for layer in network.layers if layer.weights]
    names = [layer.name for layer in layers]
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise UserError(
                f"cannot freeze {pattern!r}: no layer has such a name; choose of {', '.join(names)}"
            )
    frozen = [
        layer
        for layer in layers
        if any(fnmatch.fnmatchcase(layer.name, pattern) for pattern in patterns)
    ]
    if len(frozen) == len(layers):
        raise UserError(
            f"cannot freeze {', '.join(map(repr, patterns))}: nothing would be left to train; "
            f"leave out some of {', '.join(names)}"
        )
    for layer in frozen:
        layer.trainable = False
    return [layer.name for layer in frozen]
