r"""Show a model's layers with output shapes, parameters and operations, and how far it looks ahead.

FLOPs/s are those of the forward pass for one second of audio: matrix and convolution products
only, a multiplication and an addition counted as two, the log spectrogram left out. The look-ahead
is the audio that an output frame needs before it can be computed: from the start of the window of
the feature frame that it stands at to the end of the last window that it depends on.

The number of labels, blank included, is that of the workdir's or the config's alphabet. Where it
depends on transcripts (empty symbols, bigrams), --num_labels says it, or --config.data.train.

Examples:
  ds2 summary --config=configs/digits.py
  ds2 summary --config=configs/table1.py:9-7-bn --json=9-7-bn.json
  ds2 summary --config=configs/ds2_mandarin.py --num_labels=6000
  ds2 summary --workdir=runs/english
"""

import pathlib
import typing

from absl import flags

from ds2_tf.bin import config_flag, program

if typing.TYPE_CHECKING:
    from ds2_tf.config import RunConfig

_CONFIG = config_flag.define("A file of configs/; single keys: --config.model.rnn_units=64.")
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of a trained model, instead of a config.")
_NUM_LABELS = flags.DEFINE_integer(
    "num_labels", None, "Labels, blank included, where no alphabet says it.", lower_bound=2
)
_JSON = flags.DEFINE_string("json", None, "Write the same numbers to this file.")


def main(arguments: list[str]) -> int:
    """Summarises the model."""
    if arguments:
        raise program.UsageError(f"unexpected argument {arguments[0]!r}")
    if (_CONFIG.value is None) == (not _WORKDIR.value):
        raise program.UsageError("one of --config and --workdir is required")
    if _WORKDIR.value and _NUM_LABELS.value:
        raise program.UsageError("--num_labels and --workdir exclude each other")

    program.load_tensorflow()
    from ds2_tf import config, model_summary
    from ds2_tf.alphabet import Alphabet

    if _WORKDIR.value:
        run = config.load(pathlib.Path(_WORKDIR.value, "config.json"))
        num_labels = Alphabet.load(pathlib.Path(_WORKDIR.value, "alphabet.json")).num_labels
    else:
        run = config.resolve(_CONFIG.value)
        num_labels = _count_labels(run)
    summary = model_summary.summarize(run.model, run.features, num_labels)
    if _JSON.value:
        summary.save_json(_JSON.value)
    print(model_summary.table(summary), end="")
    return 0


def _count_labels(run: "RunConfig") -> int:
    """Returns V of a config's alphabet, of --num_labels or of the training transcripts."""
    from ds2_tf import config, manifest

    alphabet = run.alphabet
    if (alphabet.symbols or alphabet.file) and alphabet.kind == "character":
        num_labels = config.make_alphabet(alphabet, []).num_labels
        if _NUM_LABELS.value not in (None, num_labels):
            raise program.UsageError(
                f"the config's alphabet has {num_labels} labels, not --num_labels="
                f"{_NUM_LABELS.value}"
            )
        return num_labels
    if _NUM_LABELS.value:
        return _NUM_LABELS.value
    if not run.data.train:
        raise program.UsageError(
            "the alphabet depends on the transcripts: --num_labels or --config.data.train is "
            "required"
        )
    utterances = manifest.read(run.data.train)
    return config.make_alphabet(alphabet, [u.transcript for u in utterances]).num_labels


if __name__ == "__main__":
    program.run(main)
