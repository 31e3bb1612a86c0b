r"""Table 3 of Deep Speech 2: simple recurrent layers against gated ones (GRU) of the same size.

A row such as 5-3-gru has 5 layers, 3 of them recurrent, as in table 1, all with batch
normalisation. Stated by the paper: depths, cells and about 38 million parameters. The hidden units
of the simple layers are those of table 1; those of the GRU are fitted to the same total.

ROW:small keeps depth and cell, with a sixteenth of the width, for the strings of digits of
`python -m tools.demo`: minutes on two CPU cores.

Examples:
  ds2 train --config=configs/table3.py:5-3-gru --workdir=runs/table3_5-3-gru \
      --config.data.train=train.jsonl --config.data.dev=dev.jsonl
  ds2 train --config=configs/table3.py:5-3-gru:small --workdir=runs/small_5-3-gru \
      --config.data.train=runs/demo/data/train.jsonl --config.data.dev=runs/demo/data/dev.jsonl
"""

from ml_collections import ConfigDict

HIDDEN_UNITS = {
    "5-1-rnn": 2400,
    "5-1-gru": 1710,
    "5-3-rnn": 1880,
    "5-3-gru": 1130,
    "7-5-rnn": 1510,
    "7-5-gru": 890,
    "9-7-rnn": 1280,
    "9-7-gru": 760,
}
ROWS = list(HIDDEN_UNITS)


def get_config(row: str = "") -> ConfigDict:
    """Returns the settings of ROW or ROW:small; the manifests come from the command line.

    Raises:
      ValueError: for another row.
    """
    name, _, size = row.partition(":")
    if name not in ROWS or size not in ("", "small"):
        raise ValueError(
            f"configs/table3.py:ROW or ROW:small, ROW one of {', '.join(ROWS)}. Received: {row!r}"
        )
    layers, recurrent_layers, cell = name.split("-")
    units = HIDDEN_UNITS[name] // (16 if size == "small" else 1)
    config = ConfigDict(
        {
            "model": {
                "conv_dims": 1,
                "conv_channels": (units,),
                "conv_kernels": ((11, 1),),
                "conv_strides": ((2, 1),),
                "cell": cell,
                "rnn_layers": int(recurrent_layers),
                "rnn_units": units,
                "dense_layers": int(layers) - 1 - int(recurrent_layers),
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
