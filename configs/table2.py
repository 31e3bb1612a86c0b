r"""Table 2 of Deep Speech 2: SortaGrad, with batch normalisation or without.

The network is the 9-7 of table 1: a 1D convolution, 7 bidirectional simple recurrent layers of 1280
units, a fully connected layer; 38 million parameters. The first epoch goes from short to long
utterances, but for the rows that end in -unsorted.

ROW:small keeps all this with a sixteenth of the width, for the strings of digits of
`python -m tools.demo`: minutes on two CPU cores.

Examples:
  ds2 train --config=configs/table2.py:9-7-bn-unsorted --workdir=runs/table2_9-7-bn-unsorted \
      --config.data.train=train.jsonl --config.data.dev=dev.jsonl
  ds2 train --config=configs/table2.py:9-7-bn-unsorted:small --workdir=runs/small_9-7-bn-unsorted \
      --config.data.train=runs/demo/data/train.jsonl --config.data.dev=runs/demo/data/dev.jsonl
"""

from ml_collections import ConfigDict

ROWS = ["9-7", "9-7-bn", "9-7-unsorted", "9-7-bn-unsorted"]


def get_config(row: str = "") -> ConfigDict:
    """Returns the settings of ROW or ROW:small; the manifests come from the command line.

    Raises:
      ValueError: for another row.
    """
    name, _, size = row.partition(":")
    if name not in ROWS or size not in ("", "small"):
        raise ValueError(
            f"configs/table2.py:ROW or ROW:small, ROW one of {', '.join(ROWS)}. Received: {row!r}"
        )
    units = 1280 // (16 if size == "small" else 1)
    config = ConfigDict(
        {
            "model": {
                "conv_dims": 1,
                "conv_channels": (units,),
                "conv_kernels": ((11, 1),),
                "conv_strides": ((2, 1),),
                "cell": "rnn",
                "rnn_layers": 7,
                "rnn_units": units,
                "dense_layers": 1,
                "dense_units": units,
                "batch_norm": "-bn" in name,
            },
            "batches": {"batch_size": 512, "sorted_epochs": 0 if name.endswith("-unsorted") else 1},
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
