"""What a network weighs and costs: parameters, operations and look-ahead, layer by layer."""

import dataclasses
import json
import math
import os
from typing import Any

import tensorflow as tf

from ds2_tf import atomic
from ds2_tf.features import FeatureConfig
from ds2_tf.layers.block import Block
from ds2_tf.layers.sequence_layer import SequenceLayer
from ds2_tf.model import DeepSpeech2, ModelConfig


@dataclasses.dataclass(frozen=True)
class LayerSummary:
    """One layer, with the batch normalisation and non-linearity behind it.

    Attributes:
      name: its name in the network.
      kind: its class.
      output_shape: axes as letters (B utterances, T feature frames) or sizes; "T/2" is rounded up.
      parameters: trained values.
      flops_per_audio_second: floating-point operations of the forward pass for a second of audio:
        products only, a multiplication and an addition counted as two.
    """

    name: str
    kind: str
    output_shape: tuple[str | int, ...]
    parameters: int
    flops_per_audio_second: float


@dataclasses.dataclass(frozen=True)
class ModelSummary:
    """A network from the features to the logits.

    Attributes:
      layers: those with weights, in the order of the data.
      num_labels: V, blank included.
      frames_per_second: output frames for a second of audio.
      lookahead_ms: how much audio an output frame needs before it can be computed: from the start
        of the window of the feature frame that it stands at (its index times the stride) to the
        end of the last window that it depends on. None for the whole utterance.
      power_normalization: of the features; "utterance" hears the whole utterance, whatever the
        network needs.
    """

    layers: tuple[LayerSummary, ...]
    num_labels: int
    frames_per_second: float
    lookahead_ms: float | None
    power_normalization: str

    @property
    def parameters(self) -> int:
        """Trained values; the running averages of batch normalisation are not among them."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def flops_per_audio_second(self) -> float:
        """Operations of all layers; the log spectrogram is left out."""
        return sum(layer.flops_per_audio_second for layer in self.layers)

    def save_json(self, path: str | os.PathLike) -> None:
        """Writes everything, whole or not at all; a look-ahead of None is written as null.

        Raises:
          UserError: when the file cannot be written.
        """
        content: dict[str, Any] = {
            "parameters": self.parameters,
            "flops_per_audio_second": self.flops_per_audio_second,
            **dataclasses.asdict(self),
        }
        with atomic.open_for_write(path) as file:
            json.dump(content, file, indent=1)
            file.write("\n")


def summarize(model: ModelConfig, features: FeatureConfig, num_labels: int) -> ModelSummary:
    """Returns the summary of a network.

    The network is built in a graph that never runs, so that no weight takes time or memory.

    Args:
      model: its shape.
      features: what it hears.
      num_labels: V, blank included.
    """
    with tf.Graph().as_default():
        network = DeepSpeech2(model, features.num_bins, num_labels)
        layers = []
        stride = 1
        for layer in network.sequence_layers:
            stride *= layer.time_stride
            frames_per_second = features.sample_rate_hz / features.step / stride
            layers.append(_summarize_layer(layer, stride, frames_per_second))
    lookahead = network.lookahead_frames
    return ModelSummary(
        layers=tuple(layers),
        num_labels=num_labels,
        frames_per_second=frames_per_second,
        lookahead_ms=None if lookahead is None else features.span_ms(lookahead),
        power_normalization=features.power_normalization,
    )


def table(summary: ModelSummary) -> str:
    """Returns a page: a line for each layer, then the totals."""
    rows = [("layer", "kind", "output", "parameters", "FLOPs/s")]
    rows += [
        (
            layer.name,
            layer.kind,
            f"[{', '.join(map(str, layer.output_shape))}]",
            f"{layer.parameters:,}",
            f"{layer.flops_per_audio_second:,.0f}",
        )
        for layer in summary.layers
    ]
    total = f"{summary.flops_per_audio_second:,.0f}"
    rows.append(("total", "", "", f"{summary.parameters:,}", total))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        left = [cell.ljust(width) for cell, width in zip(row[:3], widths[:3], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(row[3:], widths[3:], strict=True)]
        lines.append("  ".join((*left, *right)).rstrip())
    lines += [
        "",
        "FLOPs/s: forward pass for a second of audio, products only, without the log spectrogram",
        f"output: {summary.frames_per_second:.4g} frames a second, {summary.num_labels} labels",
    ]
    if summary.lookahead_ms is None:
        lines.append("look-ahead: whole utterance")
    else:
        lines.append(f"look-ahead: {summary.lookahead_ms:g} ms")
        if summary.power_normalization == "utterance":
            lines.append(
                "  (the network's; features.power_normalization hears the whole utterance)"
            )
    return "\n".join(lines) + "\n"


def _summarize_layer(layer: SequenceLayer, stride: int, frames_per_second: float) -> LayerSummary:
    output = layer.output[0] if isinstance(layer, Block) else layer.output
    _, _, *sizes = output.shape
    return LayerSummary(
        name=layer.name,
        kind=type(layer.layer if isinstance(layer, Block) else layer).__name__,
        output_shape=("B", "T" if stride == 1 else f"T/{stride}", *sizes),
        parameters=sum(math.prod(weight.shape) for weight in layer.trainable_weights),
        flops_per_audio_second=layer.flops_per_frame() * frames_per_second,
    )
