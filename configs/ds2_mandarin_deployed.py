r"""The deployed Mandarin system of Deep Speech 2, section 7: forward only, 6.10 % CER.

Stated by the paper: 5 forward recurrent layers of 2560 units, a row convolution that looks 19
frames ahead, a fully connected layer of 2560; about 6,000 characters, with 0.74 % of all characters
outside of them; features normalised by the training set's statistics, since a stream's are not
known yet. Not stated: the cell (simple here) and the convolution (that of table 4's 1x2d).

"small" keeps depth, front end and look-ahead, with a quarter of the channels and a sixteenth of the
width, for the strings of English digits of `python -m tools.demo`: minutes on two CPU cores.

Examples:
  ds2 train --config=configs/ds2_mandarin_deployed.py --workdir=runs/mandarin_deployed \
      --config.data.train=train.jsonl --config.data.dev=dev.jsonl
  ds2 train --config=configs/ds2_mandarin_deployed.py:small --workdir=runs/small \
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
            f"configs/ds2_mandarin_deployed.py, or with :small at its end. Received: {size!r}"
        )
    small = size == "small"
    units = 2560 // (16 if small else 1)
    config = ConfigDict(
        {
            "alphabet": {"symbols": "", "case": "lower", "language": "zh", "coverage": 0.9926},
            "features": {
                "sample_rate_hz": 16000,
                "log_floor": 1e-4,
                "power_normalization": "running",
            },
            "model": {
                "conv_dims": 2,
                "conv_channels": (8,) if small else (32,),
                "conv_kernels": ((11, 41),),
                "conv_strides": ((2, 2),),
                "cell": "rnn",
                "rnn_layers": 5,
                "rnn_units": units,
                "bidirectional": False,
                "lookahead": 19,
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
