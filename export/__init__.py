"""Trained models in the formats of other runtimes: `python -m export --help`."""
