"""Spoken digits, alone and in strings, on two CPU cores: the config of `python -m tools.demo`.

The recordings are telephone quality (8 kHz), so the model listens at 8 kHz: 81 frequency bins.
configs/digits.py:streaming is the model for streams and phones: forward only with row convolution,
heard with running power, of as much computing; `--config.model.lookahead` is the paper's tau.
"""

from ml_collections import ConfigDict


def get_config(form: str = "") -> ConfigDict:
    """Returns the settings; `data.train` and `data.dev` come from the command line.

    Args:
      form: "" or "streaming".
    """
    if form not in ("", "streaming"):
        raise ValueError(f"configs/digits.py has the form 'streaming' alone. Received: {form!r}")
    values = _whole_utterances()
    if form == "streaming":
        values.features.power_normalization = "running"
        values.augment.gain_db = (-15.0, 15.0)
        values.model.update(bidirectional=False, rnn_units=192, lookahead=5)
    return values


def _whole_utterances() -> ConfigDict:
    return ConfigDict(
        {
            "alphabet": {"symbols": " efghinorstuvwxz", "case": "lower", "language": "en"},
            "features": {
                "sample_rate_hz": 8000,
                "power_normalization": "utterance",
                "log_floor": 1e-5,
            },
            "model": {
                "conv_channels": (8, 16),
                "conv_kernels": ((7, 15), (5, 9)),
                "conv_strides": ((2, 2), (1, 2)),
                "cell": "gru",
                "rnn_layers": 2,
                "rnn_units": 128,
                "bidirectional": True,
                "lookahead": 0,
                "dense_layers": 0,
                "dense_units": 128,
                "batch_norm": True,
                "batch_norm_momentum": 0.98,
                "dropout": 0.2,
            },
            "data": {
                "train": "",
                "dev": "",
                "allow": ("clipped", "implausible_rate"),
                "max_bad_share": 0.0,
                "normalization_utterances": 500,
            },
            "batches": {"batch_size": 16, "sorted_epochs": 1, "num_buckets": 16},
            "augment": {
                "speed": (0.8, 1.25),
                "channel_db": 0.0,
                "noise_share": 0.3,
                "snr_db": (5.0, 35.0),
                "noise_manifest": "",
                "gain_db": (0.0, 0.0),
            },
            "optimizer": {"name": "adam", "momentum": 0.99, "clip_norm": 400.0},
            "schedule": {"learning_rate": 2e-3, "anneal": 2.25, "warmup_steps": 100},
            "training": {
                "num_epochs": 4,
                "seed": 0,
                "checkpoint_steps": 200,
                "keep_checkpoints": 2,
                "log_steps": 20,
                "deterministic": True,
            },
        }
    )
