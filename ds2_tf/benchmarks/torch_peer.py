"""Times PyTorch's losses, layers, steps on request: one JSON line in, one out, until stdin ends.

Runs as a script, in any environment with PyTorch and NumPy: nothing of ds2_tf is imported. The
other end is `torch_client`. Requests:
  {"prepare": name, "kind": one of _KINDS, "arguments": {...}} -> {}
  {"run": name} -> {"wall_seconds", "cpu_seconds"}
  {"peak": name} -> {"bytes": as of `resident.peak_bytes_above`}
  {"save": name, "path": an .npy file for the gradient of a CTC loss, "num_rows": of them} -> {}
  {"forget": name} -> {}
What goes wrong comes back as {"error": text}.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import resident  # Beside this script, like the next.
import torch
import torch_training

Work = Callable[[], Any]


def ctc(path: str) -> Work:
    """Returns log_softmax, CTC loss and gradient of the inputs in an .npz file.

    They are logits [T, B, V], labels [B, U] and both lengths [B]; the work returns the gradient.
    """
    arrays = {name: torch.from_numpy(array) for name, array in np.load(path).items()}
    logits = arrays["logits"].requires_grad_()

    def work() -> torch.Tensor:
        logits.grad = None
        torch.nn.functional.ctc_loss(
            torch.log_softmax(logits, 2),
            arrays["labels"].long(),
            arrays["logit_lengths"].long(),
            arrays["label_lengths"].long(),
            reduction="sum",
        ).backward()
        return logits.grad

    return work


def recurrence(batch_size: int, num_frames: int, units: int, dtype: str) -> Work:
    """Returns a bidirectional torch.nn.RNN(relu) with as many inputs as units, both passes."""
    layer = torch.nn.RNN(units, units, nonlinearity="relu", bidirectional=True)
    layer = layer.to(getattr(torch, dtype))
    inputs = torch.randn(num_frames, batch_size, units, dtype=getattr(torch, dtype))
    by_outputs = torch.randn(num_frames, batch_size, 2 * units, dtype=getattr(torch, dtype))
    inputs.requires_grad_()

    def work() -> None:
        inputs.grad = None
        layer.zero_grad(set_to_none=True)
        layer(inputs)[0].backward(by_outputs)

    return work


def convolution(
    *,
    input_shape: list[int],
    kernel_shape: list[int],
    stride: list[int],
    dtype: str,
    channels_last: bool,
    only: str,
) -> Work:
    """Returns one pass: "forward", "input gradient" or "kernel gradient".

    Args:
      input_shape: batch, time, frequency, channels.
      kernel_shape: time, frequency, channels, filters.
      stride: (time, frequency).
      dtype: of everything.
      channels_last: memory layout.
      only: the pass.
    """
    memory_format = torch.channels_last if channels_last else torch.contiguous_format

    def noise(*shape: int) -> torch.Tensor:
        values = torch.randn(*shape, dtype=getattr(torch, dtype))
        return values.contiguous(memory_format=memory_format)

    batch_size, num_frames, num_bins, channels = input_shape
    x = noise(batch_size, channels, num_frames, num_bins)
    kernel = noise(kernel_shape[3], channels, kernel_shape[0], kernel_shape[1])
    padding = [(size - 1) // 2 for size in kernel_shape[:2]]

    def forward() -> torch.Tensor:
        return torch.nn.functional.conv2d(x, kernel, None, stride, padding)

    if only == "forward":
        return forward
    by_y = noise(*forward().shape)
    wanted = [only == "input gradient", only == "kernel gradient", False]
    return lambda: torch.ops.aten.convolution_backward(
        by_y, x, kernel, None, stride, padding, [1, 1], False, [0, 0], 1, wanted
    )


_KINDS: dict[str, Callable[..., Work]] = {
    "ctc": ctc,
    "recurrence": recurrence,
    "convolution": convolution,
    "training": torch_training.training_step,
}


def _answer(request: dict[str, Any], works: dict[str, Work]) -> dict[str, Any]:
    if name := request.get("prepare"):
        works[name] = _KINDS[request["kind"]](**request["arguments"])
    elif name := request.get("run"):
        wall, cpu = time.perf_counter(), time.process_time()
        works[name]()
        wall_seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
        return {"wall_seconds": wall_seconds, "cpu_seconds": cpu_seconds}
    elif name := request.get("peak"):
        return {"bytes": resident.peak_bytes_above(works[name])}
    elif name := request.get("save"):
        np.save(request["path"], works[name]()[:, : request["num_rows"]].numpy())
    else:
        del works[request["forget"]]
    return {}


def main() -> None:
    """Answers until stdin ends. The argument is the number of threads; 0 leaves it alone."""
    if num_threads := int(sys.argv[1]):
        torch.set_num_threads(num_threads)
    works: dict[str, Work] = {}
    print(json.dumps({"version": torch.__version__}), flush=True)
    for line in sys.stdin:
        try:
            answer = _answer(json.loads(line), works)
        except (RuntimeError, ValueError, TypeError, KeyError, OSError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
