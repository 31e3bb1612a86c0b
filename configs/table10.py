r"""The network of table 10 of Deep Speech 2, which was trained on 120 to 12,000 hours of English.

Stated by the paper: 9 layers, of which 2 are 2D convolutions and 7 recurrent; 68 million
parameters. Fitted to that total, with simple recurrent layers: the hidden units. The convolutions
are those of table 4's 2x2d. The amount of data is that of the manifest.

"small" keeps depth and front end, with a quarter of the channels and a sixteenth of the width, for
the strings of digits of `python -m tools.demo`: minutes on two CPU cores.

Examples:
  ds2 train --config=configs/table10.py --workdir=runs/table10 \
      --config.data.train=train.jsonl --config.data.dev=dev.jsonl
  ds2 train --config=configs/table10.py:small --workdir=runs/small \
      --config.data.train=runs/demo/data/train.jsonl --config.data.dev=runs/demo/data/dev.jsonl
"""

from ml_collections import ConfigDict


def get_config(size: str = "") -> ConfigDict:
    """Returns the settings of the model or its "small"; the manifests come from the command line.

    Raises:
      ValueError: for another size.
    """
    if size not in ("", "small"):
        raise ValueError(f"configs/table10.py, or with :small at its end. Received: {size!r}")
    small = size == "small"
    config = ConfigDict(
        {
            "model": {
                "conv_dims": 2,
                "conv_channels": (8, 8) if small else (32, 32),
                "conv_kernels": ((11, 41), (11, 21)),
                "conv_strides": ((2, 2), (1, 2)),
                "cell": "rnn",
                "rnn_layers": 7,
                "rnn_units": 1810 // (16 if small else 1),
                "dense_layers": 0,
                "batch_norm": True,
            },
            "batches": {"batch_size": 512},
            "augment": {"noise_share": 0.4},
        }
    )
    if small:
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
