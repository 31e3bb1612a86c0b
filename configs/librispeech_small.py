r"""A small bidirectional Deep Speech 2 on a few hours of read English (LibriSpeech), two CPU cores.

Example:
  ds2 train --config=configs/librispeech_small.py --workdir=runs/librispeech_small \
      --config.data.train=train.jsonl --config.data.dev=dev.jsonl
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """Returns the settings; `data.train` and `data.dev` come from the command line."""
    return ConfigDict(
        {
            "alphabet": {
                "symbols": " 'abcdefghijklmnopqrstuvwxyz",
                "case": "lower",
                "language": "en",
            },
            "features": {
                "sample_rate_hz": 16000,
                "power_normalization": "utterance",
                "log_floor": 1e-4,
            },
            "model": {
                "conv_channels": (8, 16),
                "conv_kernels": ((9, 21), (5, 11)),
                "conv_strides": ((2, 2), (2, 2)),
                "cell": "gru",
                "rnn_layers": 3,
                "rnn_units": 192,
                "bidirectional": True,
                "lookahead": 0,
                "dense_layers": 0,
                "dense_units": 192,
                "batch_norm": True,
                "batch_norm_momentum": 0.98,
                "dropout": 0.2,
            },
            "data": {
                "train": "",
                "dev": "",
                "allow": ("clipped", "duplicate", "implausible_rate"),
                "max_bad_share": 0.01,
                "normalization_utterances": 500,
            },
            "batches": {"batch_size": 16, "sorted_epochs": 1, "num_buckets": 12},
            "augment": {
                "speed": (0.9, 1.1),
                "noise_share": 0.4,
                "snr_db": (5.0, 30.0),
                "noise_manifest": "",
            },
            "optimizer": {"name": "adam", "momentum": 0.99, "clip_norm": 400.0},
            "schedule": {"learning_rate": 1e-3, "anneal": 1.05, "warmup_steps": 100},
            "training": {
                "num_epochs": 25,
                "seed": 0,
                "checkpoint_steps": 100,
                "keep_checkpoints": 2,
                "log_steps": 10,
                "deterministic": True,
            },
        }
    )
