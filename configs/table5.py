r"""Table 5 of Deep Speech 2: strides of 2, 3 and 4 over time, with characters or pairs of them.

Stated by the paper: one 1D convolution, 7 recurrent layers and a fully connected one; batch
normalisation and SortaGrad; 35 million parameters. The convolution is that of table 4's 1x1d; the
hidden units are fitted to that total, with simple recurrent layers, and are the same in all rows
(700 pairs add 0.8 million). How many pairs there are depends on the training transcripts.

ROW:small keeps strides and symbols, with a sixteenth of the width, for the strings of digits of
`python -m tools.demo`: minutes on two CPU cores. At a stride of 4 three of these are too short for
their characters, so all rows should train on what check_data keeps.

Examples:
  ds2 train --config=configs/table5.py:3-bigrams --workdir=runs/table5_3-bigrams \
      --config.data.train=train.jsonl --config.data.dev=dev.jsonl
  ds2 check_data --manifest=runs/demo/data/train.jsonl --sample_rate_hz=8000 --frame_stride=4 \
      --allow=clipped,implausible_rate --write_clean=runs/stride4.jsonl
  ds2 train --config=configs/table5.py:3-bigrams:small --workdir=runs/small_3-bigrams \
      --config.data.train=runs/stride4.jsonl --config.data.dev=runs/demo/data/dev.jsonl
"""

from ml_collections import ConfigDict

KINDS = {"unigrams": "character", "bigrams": "bigram"}
ROWS = [f"{stride}-{symbols}" for symbols in KINDS for stride in (2, 3, 4)]


def get_config(row: str = "") -> ConfigDict:
    """Returns the settings of ROW or ROW:small; the manifests come from the command line.

    Raises:
      ValueError: for another row.
    """
    name, _, size = row.partition(":")
    if name not in ROWS or size not in ("", "small"):
        raise ValueError(
            f"configs/table5.py:ROW or ROW:small, ROW one of {', '.join(ROWS)}. Received: {row!r}"
        )
    stride, symbols = name.split("-")
    shrink = 16 if size == "small" else 1
    units = 1210 // shrink
    config = ConfigDict(
        {
            "alphabet": {"kind": KINDS[symbols]},
            "model": {
                "conv_dims": 1,
                "conv_channels": (1280 // shrink,),
                "conv_kernels": ((11, 1),),
                "conv_strides": ((int(stride), 1),),
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
