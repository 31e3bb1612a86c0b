"""A training step of Deep Speech 2 in PyTorch, as deepspeech.pytorch orders its layers.

Like `torch_peer`, which uses it, it imports nothing of ds2_tf. Axes: B utterances, T frames, F
bins, H units, U labels, V symbols with the blank 0.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

_CLIP = 20.0


class Network(nn.Module):
    """Convolutions with batch normalisation and clipped ReLU; recurrences; one linear layer.

    Both directions of a recurrence are summed. Batch normalisation comes before each of them but
    the first, whose input is normalised already, and before the linear layer.
    """

    def __init__(
        self,
        num_bins: int,
        *,
        channels: list[int],
        kernels: list[list[int]],
        strides: list[list[int]],
        rnn_layers: int,
        units: int,
        num_labels: int,
    ) -> None:
        """Builds it; kernels and strides are (time, frequency)."""
        super().__init__()
        self.convolutions = nn.ModuleList()
        previous = 1
        for out, (time, frequency), (step, hop) in zip(channels, kernels, strides, strict=True):
            padding = (frequency // 2, time // 2)
            self.convolutions.append(
                nn.Sequential(
                    nn.Conv2d(previous, out, (frequency, time), (hop, step), padding),
                    nn.BatchNorm2d(out),
                    nn.Hardtanh(0, _CLIP, inplace=True),
                )
            )
            previous, num_bins = out, (num_bins - 1) // hop + 1
        sizes = [previous * num_bins] + [units] * (rnn_layers - 1)
        self.norms = nn.ModuleList(nn.BatchNorm1d(units) for _ in range(rnn_layers))
        self.recurrences = nn.ModuleList(
            nn.RNN(size, units, nonlinearity="relu", bidirectional=True) for size in sizes
        )
        self.linear = nn.Linear(units, num_labels, bias=False)

    def forward(
        self, x: torch.Tensor, lengths: torch.Tensor, packed: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns logits [T', B, V] and their lengths [B].

        Args:
          x: features [B, 1, F, T].
          lengths: [B], descending.
          packed: whether padding is masked in the convolutions and left out of the recurrences;
            otherwise it is treated like sound.
        """
        for convolution in self.convolutions:
            x = convolution(x)
            lengths = (lengths - 1) // convolution[0].stride[1] + 1
            if packed:
                padding = torch.arange(x.shape[3]) >= lengths[:, None]
                x = x.masked_fill(padding[:, None, None], 0.0)
        x = x.flatten(1, 2).permute(2, 0, 1).contiguous()
        for number, recurrence in enumerate(self.recurrences):
            if number:
                x = _framewise(self.norms[number - 1], x)
            if packed:
                x = nn.utils.rnn.pack_padded_sequence(x, lengths)
            x, _ = recurrence(x)
            if packed:
                x, _ = nn.utils.rnn.pad_packed_sequence(x)
            x = x.unflatten(2, (2, -1)).sum(2)
        return self.linear(_framewise(self.norms[-1], x)), lengths


def _framewise(norm: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Returns the batch normalisation of x [T, B, H] over both T and B."""
    return norm(x.flatten(0, 1)).view_as(x)


def training_step(
    *,
    path: str,
    clip_norm: float,
    dtype: str,
    channels_last: bool,
    packed: bool,
    **shape: Any,
) -> Callable[[], float]:
    """Returns a step: loss, gradients, clipping and the update by SGD with Nesterov momentum.

    The learning rate is 0, so each step finds the same loss, which it returns.

    Args:
      path: an .npz file with features [B, T, F], feature_lengths [B] (descending), labels [B, U]
        and label_lengths [B].
      clip_norm: longer gradients are shortened to it.
      dtype: "float32", or "bfloat16" by autocast.
      channels_last: memory layout of the convolutions.
      packed: see `Network.forward`.
      **shape: of the `Network`.
    """
    arrays = {name: torch.from_numpy(array) for name, array in np.load(path).items()}
    memory_format = torch.channels_last if channels_last else torch.contiguous_format
    features = arrays["features"].permute(0, 2, 1).unsqueeze(1)
    features = features.contiguous(memory_format=memory_format)
    torch.manual_seed(0)
    network = Network(features.shape[2], **shape).to(memory_format=memory_format)
    lengths = arrays["feature_lengths"].long()
    update = torch.optim.SGD(network.parameters(), lr=0.0, momentum=0.99, nesterov=True)
    half: Any = contextlib.nullcontext()
    if dtype != "float32":
        half = torch.autocast("cpu", getattr(torch, dtype))

    def step() -> float:
        with half:
            logits, logit_lengths = network(features, lengths, packed)
        loss = nn.functional.ctc_loss(
            torch.log_softmax(logits.float(), 2),
            arrays["labels"].long(),
            logit_lengths,
            arrays["label_lengths"].long(),
            reduction="sum",
        )
        update.zero_grad(set_to_none=True)
        (loss / len(lengths)).backward()
        nn.utils.clip_grad_norm_(network.parameters(), clip_norm)
        update.step()
        return float(loss.detach()) / len(lengths)

    return step
