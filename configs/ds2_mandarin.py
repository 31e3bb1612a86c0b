r"""The Mandarin research system of Deep Speech 2, section 6.2: the bidirectional one of 5.81 % CER.

Stated by the paper: 9 layers, 7 of them recurrent; 2D convolution; batch normalisation; about 6,000
characters, the Roman alphabet included, with 0.74 % of all characters outside of it (the alphabet
is taken from the training transcripts by that share). Fitted: the hidden units of simple recurrent
layers, to 80 million parameters with 6,000 symbols; the paper gives no total. The layers are
arranged as in table 4's 1x2d.

"small" keeps depth and front end, with a quarter of the channels and a sixteenth of the width, for
the strings of English digits of `python -m tools.demo`: minutes on two CPU cores.

Examples:
  ds2 train --config=configs/ds2_mandarin.py --workdir=runs/mandarin \
      --config.data.train=train.jsonl --config.data.dev=dev.jsonl
  ds2 train --config=configs/ds2_mandarin.py:small --workdir=runs/small \
      --config.data.train=runs/demo/data/train.jsonl --config.data.dev=runs/demo/data/dev.jsonl
"""

from ml_collections import ConfigDict


def get_config(size: str = "") -> ConfigDict:
    """Returns the settings of the model or its "small"; the manifests come from the command line.

    Raises:
      ValueError: for another size.
    """
    if size not in ("", "small"):
        raise ValueError(f"configs/ds2_mandarin.py, or with :small at its end. Received: {size!r}")
    small = size == "small"
    units = 1760 // (16 if small else 1)
    config = ConfigDict(
        {
            "alphabet": {"symbols": "", "case": "lower", "language": "zh", "coverage": 0.9926},
            "model": {
                "conv_dims": 2,
                "conv_channels": (8,) if small else (32,),
                "conv_kernels": ((11, 41),),
                "conv_strides": ((2, 2),),
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
    if small:
        config.update(
            {
                "alphabet": {"symbols": " efghinorstuvwxz", "language": "en", "coverage": 1.0},
                "features": {"sample_rate_hz": 8000, "log_floor": 1e-5},
                "data": {"allow": ("clipped", "implausible_rate")},
                "batches": {"batch_size": 16},
                "optimizer": {"name": "adam"},
                "schedule": {"learning_rate": 1e-3, "warmup_steps": 100},
                "training": {"num_epochs": 6},
            }
        )
    return config
