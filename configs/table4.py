r"""Table 4 of Deep Speech 2: convolutions over time (1d) or time and frequency (2d), 1 to 3 layers.

Stated by the paper: channels, filters and strides; the 7 recurrent layers and the fully connected
one above them; batch normalisation and SortaGrad; 35 million parameters. Fitted to that total, with
simple recurrent layers: the hidden units. (The error rate of 1x1d is the one of table 1's 9-7-bn,
which has 38 million; here that row is fitted like the others.)

ROW:small keeps the front end with a sixteenth (1d) or a quarter (2d) of the channels, and depth
with a sixteenth of the width, for the strings of digits of `python -m tools.demo`: minutes on two
CPU cores.

Examples:
  ds2 train --config=configs/table4.py:2x2d --workdir=runs/table4_2x2d \
      --config.data.train=train.jsonl --config.data.dev=dev.jsonl
  ds2 train --config=configs/table4.py:2x2d:small --workdir=runs/small_2x2d \
      --config.data.train=runs/demo/data/train.jsonl --config.data.dev=runs/demo/data/dev.jsonl
"""

from ml_collections import ConfigDict

# Channels, filters and strides (time, frequency) of the convolutions, then the hidden units.
FRONT_ENDS = {
    "1x1d": ((1280,), ((11, 1),), ((2, 1),), 1220),
    "2x1d": ((640, 640), ((5, 1), (5, 1)), ((1, 1), (2, 1)), 1230),
    "3x1d": ((512, 512, 512), ((5, 1), (5, 1), (5, 1)), ((1, 1), (1, 1), (2, 1)), 1220),
    "1x2d": ((32,), ((11, 41),), ((2, 2),), 1230),
    "2x2d": ((32, 32), ((11, 41), (11, 21)), ((2, 2), (1, 2)), 1250),
    "3x2d": ((32, 32, 96), ((11, 41), (11, 21), (11, 21)), ((2, 2), (1, 2), (1, 2)), 1230),
}
ROWS = list(FRONT_ENDS)


def get_config(row: str = "") -> ConfigDict:
    """Returns the settings of ROW or ROW:small; the manifests come from the command line.

    Raises:
      ValueError: for another row.
    """
    name, _, size = row.partition(":")
    if name not in ROWS or size not in ("", "small"):
        raise ValueError(
            f"configs/table4.py:ROW or ROW:small, ROW one of {', '.join(ROWS)}. Received: {row!r}"
        )
    channels, kernels, strides, units = FRONT_ENDS[name]
    dims = 1 if name.endswith("1d") else 2
    if size == "small":
        channels = tuple(count // (16 if dims == 1 else 4) for count in channels)
        units //= 16
    config = ConfigDict(
        {
            "model": {
                "conv_dims": dims,
                "conv_channels": channels,
                "conv_kernels": kernels,
                "conv_strides": strides,
                "cell": "rnn",
                "rnn_layers": 7,
                "rnn_units": units,
                "dense_layers": 1,
                "dense_units": units,
                "batch_norm": True,
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
