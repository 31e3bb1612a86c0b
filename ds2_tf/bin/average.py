"""Average the last checkpoints of a training: often a better model than any one of them.

Writes a new folder with the mean of the weights of the last checkpoints in WORKDIR/checkpoints and
all else that programs need of a model. Training keeps config.training.keep_checkpoints of them.
With --manifest it also compares the average with the best weights of the training.

Examples:
  ds2 average --workdir=runs/english --output=runs/english_average
  ds2 average --workdir=runs/english --output=runs/english_average --last=3 --manifest=dev.jsonl
  ds2 transcribe --workdir=runs/english_average talk.mp3
"""

from absl import flags

from ds2_tf.bin import program

_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the training.")
_OUTPUT = flags.DEFINE_string("output", None, "Folder to make for the average.")
_LAST = flags.DEFINE_integer("last", 5, "How many checkpoints to average.", lower_bound=1)
_MANIFEST = flags.DEFINE_string(
    "manifest", None, "Compare on this manifest, or several separated by commas."
)


def main(arguments: list[str]) -> int:
    """Averages the checkpoints."""
    if arguments:
        raise program.UsageError(
            f"unexpected argument {arguments[0]!r}; name several manifests without blanks, as "
            "--manifest=a.jsonl,b.jsonl"
        )
    if not _WORKDIR.value or not _OUTPUT.value:
        raise program.UsageError("--workdir and --output are required")

    program.load_tensorflow()
    from ds2_tf import averaging, manifest
    from ds2_tf.acoustic_model import AcousticModel
    from ds2_tf.evaluate import evaluate

    averaging.check_output(_OUTPUT.value)
    utterances = manifest.read(_MANIFEST.value) if _MANIFEST.value else []
    checkpoints = averaging.last_checkpoints(_WORKDIR.value, _LAST.value)
    averaging.write(_WORKDIR.value, checkpoints, _OUTPUT.value)
    few = f" (--last={_LAST.value}, but there are no more)" * (len(checkpoints) < _LAST.value)
    print(f"{_OUTPUT.value}: average of {', '.join(path.stem for path in checkpoints)}{few}")
    if utterances:
        for name, workdir in (("best weights", _WORKDIR.value), ("average", _OUTPUT.value)):
            result = evaluate(AcousticModel.load(workdir), utterances)
            word, character = result.word.rate, result.character.rate
            print(f"{name}: WER {word:.2%}, CER {character:.2%}")
    return 0


if __name__ == "__main__":
    program.run(main)
