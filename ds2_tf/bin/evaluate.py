"""Measure the word and character error rate of a trained model.

Prints the rates of the whole corpus with substitutions, insertions and deletions, then the best,
median and worst utterances, each transcript above what was recognised. A recording that cannot be
read is named and left out; the program stops when more than --max_bad_share of them are bad.

Examples:
  ds2 evaluate --workdir=runs/english --manifest=test.jsonl
  ds2 evaluate --workdir=runs/english --manifest=test_clean.jsonl,test_other.jsonl
  ds2 evaluate --workdir=runs/english --manifest=test.jsonl --json=test.json --batch_size=64
  ds2 evaluate --workdir=runs/english --manifest=test.jsonl --lm=english.binary --beam_width=200
  ds2 evaluate --workdir=runs/streaming --manifest=test.jsonl --streaming --adapt_seconds=60
"""

from absl import flags

from ds2_tf.bin import adaptation_flag, decoder_flags, program

_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the trained model.")
_MANIFEST = flags.DEFINE_string("manifest", None, "A manifest, or several separated by commas.")
_BATCH_SIZE = flags.DEFINE_integer(
    "batch_size", 16, "Utterances heard at once; changes the speed, not the result.", lower_bound=1
)
_JSON = flags.DEFINE_string("json", None, "Write all utterances with their errors to this file.")
_MAX_BAD_SHARE = flags.DEFINE_float(
    "max_bad_share",
    0.01,
    "The share of recordings that may be unreadable.",
    lower_bound=0.0,
    upper_bound=1.0,
)
_STREAMING = flags.DEFINE_bool(
    "streaming", False, "Hear the recordings as streams: their power is not known beforehand."
)
flags.adopt_module_key_flags(adaptation_flag)
flags.adopt_module_key_flags(decoder_flags)


def main(arguments: list[str]) -> int:
    """Evaluates the model on the manifests."""
    if arguments:
        raise program.UsageError(
            f"unexpected argument {arguments[0]!r}; name several manifests without blanks, as "
            "--manifest=a.jsonl,b.jsonl"
        )
    if not _WORKDIR.value or not _MANIFEST.value:
        raise program.UsageError("--workdir and --manifest are required")
    settings = decoder_flags.read(_WORKDIR.value)

    program.load_tensorflow()
    from ds2_tf import manifest
    from ds2_tf.acoustic_model import AcousticModel
    from ds2_tf.evaluate import evaluate, report

    utterances = manifest.read(_MANIFEST.value)
    model = AcousticModel.load(_WORKDIR.value)
    if _STREAMING.value:
        model = model.with_features(model.feature_config.causal)
    model = adaptation_flag.applied_to(model)
    result = evaluate(
        model,
        utterances,
        _BATCH_SIZE.value,
        max_bad_share=_MAX_BAD_SHARE.value,
        decoder=decoder_flags.made_for(model, settings),
    )
    print(report(result), end="")
    if _JSON.value:
        result.save_json(_JSON.value)
        print(f"\nall utterances: {_JSON.value}")
    return 0


if __name__ == "__main__":
    program.run(main)
