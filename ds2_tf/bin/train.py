r"""Train a Deep Speech 2 model, or go on with a training that stopped.

The workdir receives the model and all about it: config.json, alphabet.json, normalization.npz,
best/, checkpoints/, metrics.jsonl, learning_curve.png and tensorboard/. Stop with Ctrl-C; the same
command goes on exactly where it stopped.

Examples:
  ds2 train --config=configs/digits.py --workdir=runs/digits \
      --config.data.train=train.jsonl --config.data.dev=dev.jsonl
  ds2 train --config=configs/digits.py --workdir=runs/small --config.model.rnn_units=64 ...
  tensorboard --logdir=runs

Several machines, each with its own "index", sharing the folder of the run:
  TF_CONFIG='{"cluster": {"worker": ["host1:2222", "host2:2222"]},
              "task": {"type": "worker", "index": 0}}' ds2 train --config=... --workdir=...
"""

from absl import flags, logging

from ds2_tf.bin import config_flag, program

_CONFIG = config_flag.define("A file of configs/; single keys: --config.model.rnn_units=64.")
_PROFILE = flags.DEFINE_integer(
    "profile",
    0,
    "Steps to write a TensorFlow profile of, for TensorBoard; 0 for none.",
    lower_bound=0,
)
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the run, made if need be.")


def main(arguments: list[str]) -> int:
    """Trains."""
    if arguments:
        raise program.UsageError(f"unexpected argument {arguments[0]!r}")
    if _CONFIG.value is None or not _WORKDIR.value:
        raise program.UsageError("--config and --workdir are required")

    program.load_tensorflow()
    from ds2_tf import config, train

    run = config.resolve(_CONFIG.value)
    if not run.data.train:
        raise program.UsageError("--config.data.train must name a manifest to train on")
    logging.set_verbosity(logging.INFO)
    progress = train.train(run, _WORKDIR.value, _PROFILE.value)
    best = f"; best dev error rate {progress.best_score.first:.2%}" if run.data.dev else ""
    print(f"done after {progress.step} steps{best}")
    return 0


if __name__ == "__main__":
    program.run(main)
