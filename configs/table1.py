r"""Table 1 of Deep Speech 2: deeper networks of the same size, with batch normalisation or without.

A row such as 9-7 has 9 layers, 7 of them recurrent: a 1D convolution (filter 11, stride 2), 7
bidirectional simple recurrent layers and a fully connected one; the output layer isn't counted.
Stated by the paper: depths, hidden units and 38 million parameters for each. That the convolution
has as many channels as there are hidden units is the reading under which all four have that many.

ROW:small keeps depth and batch normalisation, with a sixteenth of the width, for the strings of
digits of `python -m tools.demo`: minutes on two CPU cores.

Examples:
  ds2 train --config=configs/table1.py:9-7-bn --workdir=runs/table1_9-7-bn \
      --config.data.train=train.jsonl --config.data.dev=dev.jsonl
  ds2 train --config=configs/table1.py:9-7-bn:small --workdir=runs/small_9-7-bn \
      --config.data.train=runs/demo/data/train.jsonl --config.data.dev=runs/demo/data/dev.jsonl
"""

from ml_collections import ConfigDict

HIDDEN_UNITS = {"5-1": 2400, "5-3": 1880, "7-5": 1510, "9-7": 1280}
ROWS = [depth + suffix for depth in HIDDEN_UNITS for suffix in ("", "-bn")]


def get_config(row: str = "") -> ConfigDict:
    """Returns the settings of ROW or ROW:small; the manifests come from the command line.

    Raises:
      ValueError: for another row.
    """
    name, _, size = row.partition(":")
    if name not in ROWS or size not in ("", "small"):
        raise ValueError(
            f"configs/table1.py:ROW or ROW:small, ROW one of {', '.join(ROWS)}. Received: {row!r}"
        )
    depth = name.removesuffix("-bn")
    layers, recurrent_layers = map(int, depth.split("-"))
    units = HIDDEN_UNITS[depth] // (16 if size == "small" else 1)
    config = ConfigDict(
        {
            "model": {
                "conv_dims": 1,
                "conv_channels": (units,),
                "conv_kernels": ((11, 1),),
                "conv_strides": ((2, 1),),
                "cell": "rnn",
                "rnn_layers": recurrent_layers,
                "rnn_units": units,
                "dense_layers": layers - 1 - recurrent_layers,
                "dense_units": units,
                "batch_norm": name.endswith("-bn"),
            },
            "batches": {"batch_size": 512},
            "augment": {"noise_share": 0.4},
        }
    )
    if size == "small":
        config.update(
            {
                "alphabet": {"symbols": " efghinorstuvwxz"},
                "features": {"sample_rate_hz": 8000, "log_floor": 1e-5},
                "data": {"allow": ("clipped", "implausible_rate")},
                "batches": {"batch_size": 16},
                "optimizer": {"name": "adam"},
                "schedule": {"learning_rate": 1e-3, "warmup_steps": 100},
                "training": {"num_epochs": 6},
            }
        )
    return config
