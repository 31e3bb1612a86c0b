r"""Train a Deep Speech 2 model, or go on with a training that stopped.

The workdir receives the model and all about it: config.json, alphabet.json, normalization.npz,
best/, checkpoints/, metrics.jsonl, learning_curve.png and tensorboard/. Stop with Ctrl-C; the same
command goes on exactly where it stopped.

Examples:
  ds2 train --config=configs/digits.py --workdir=runs/digits \
      --config.data.train=train.jsonl --config.data.dev=dev.jsonl
  ds2 train --config=configs/digits.py --workdir=runs/small --config.model.rnn_units=64 ...
  tensorboard --logdir=runs
"""

from absl import flags, logging
from ml_collections import config_flags

from ds2_tf.bin import program

_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "A file of configs/; single keys: --config.model.rnn_units=64."
)
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the run, made if need be.")


def main(arguments: list[str]) -> int:
    """Trains."""
    if arguments:
        raise program.UsageError(f"unexpected argument {arguments[0]!r}")
    if _CONFIG.value is None or not _WORKDIR.value:
        raise program.UsageError("--config and --workdir are required")

    try:
        values = _CONFIG.value.copy_and_resolve_references()
    except Exception as error:  # Whatever the file raises when it runs.
        raise program.UsageError(f"--config: {program.in_one_line(error)}") from error

    program.load_tensorflow()
    from ds2_tf import config, train

    run = config.resolve(values)
    if not run.data.train:
        raise program.UsageError("--config.data.train must name a manifest to train on")
    logging.set_verbosity(logging.INFO)
    progress = train.train(run, _WORKDIR.value)
    word, character = progress.best_score
    print(f"done after {progress.step} steps; best dev WER {word:.2%}, CER {character:.2%}")
    return 0


if __name__ == "__main__":
    program.run(main)
