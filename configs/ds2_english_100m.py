r"""The English system of Deep Speech 2, section 6.1: 100 million parameters.

Stated by the paper: 11 layers, of which 3 are 2D convolutions, 7 bidirectional recurrent and the
last the fully connected output layer; pairs of characters at a temporal stride of 3; batch
normalisation and SortaGrad. Fitted to 100 million with 729 symbols: the hidden units of simple
recurrent layers. The convolutions are those of table 4's 3x2d; that the first one brings the stride
of 3 is a choice.

"small" keeps depth, front end, stride and pairs, with a quarter of the channels and a sixteenth of
the width, for the strings of digits of `python -m tools.demo`: minutes on two CPU cores.

Examples:
  ds2 train --config=configs/ds2_english_100m.py --workdir=runs/english_100m \
      --config.data.train=train.jsonl --config.data.dev=dev.jsonl
  ds2 train --config=configs/ds2_english_100m.py:small --workdir=runs/small \
      --config.data.train=runs/demo/data/train.jsonl --config.data.dev=runs/demo/data/dev.jsonl
"""

from ml_collections import ConfigDict


def get_config(size: str = "") -> ConfigDict:
    """Returns the settings of the model or its "small"; the manifests come from the command line.

    Raises:
      ValueError: for another size.
    """
    if size not in ("", "small"):
        raise ValueError(
            f"configs/ds2_english_100m.py, or with :small at its end. Received: {size!r}"
        )
    small = size == "small"
    config = ConfigDict(
        {
            "alphabet": {"kind": "bigram"},
            "model": {
                "conv_dims": 2,
                "conv_channels": (8, 8, 24) if small else (32, 32, 96),
                "conv_kernels": ((11, 41), (11, 21), (11, 21)),
                "conv_strides": ((3, 2), (1, 2), (1, 2)),
                "cell": "rnn",
                "rnn_layers": 7,
                "rnn_units": 2160 // (16 if small else 1),
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
