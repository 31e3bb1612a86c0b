"""Exports a trained model, so that it runs without this project.

saved_model: a folder for TensorFlow Serving, or for a program in any language that can run
TensorFlow. The signature `transcribe` (also `serving_default`) takes `waveform` [B,S] float32 in
[-1,1], padded to the longest, and `waveform_lengths` [B] int32, in samples; it returns `text` [B],
`log_probabilities` [B,T',V] and `lengths` [B]. The sample rate and all settings are in
assets/config.json.

Examples:
  python -m export --workdir=runs/digits --format=saved_model --output=exported/digits
  python -m export --workdir=runs/digits --output=exported/digits --overwrite
  python tools/transcribe_saved_model.py exported/digits recording.wav
  saved_model_cli show --dir exported/digits --tag_set serve --signature_def transcribe
"""

from absl import flags

from ds2_tf.bin import program

_WORKDIR = flags.DEFINE_string("workdir", None, "Folder that `ds2 train` filled.")
_FORMAT = flags.DEFINE_enum("format", "saved_model", ["saved_model"], "What to write.")
_OUTPUT = flags.DEFINE_string("output", None, "Folder to make.")
_OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replace a SavedModel that is there already.")


def main(arguments: list[str]) -> int:
    """Exports the model of --workdir to --output."""
    if arguments:
        raise program.UsageError(f"unexpected argument {arguments[0]!r}")
    if not _WORKDIR.value or not _OUTPUT.value:
        raise program.UsageError("--workdir and --output are required")

    import tensorflow as tf

    from ds2_tf.acoustic_model import AcousticModel
    from export import saved_model, signatures

    tf.get_logger().setLevel("WARNING")
    saved_model.check_output(_OUTPUT.value, _OVERWRITE.value)
    model = AcousticModel.load(_WORKDIR.value)
    saved_model.export(model, _OUTPUT.value, _OVERWRITE.value)
    mebibytes = saved_model.size_bytes(_OUTPUT.value) / 2**20
    print(
        f"wrote {_OUTPUT.value} ({mebibytes:.1f} MiB), to be called with {model.sample_rate_hz} Hz"
    )
    print(
        f"call it: tf.saved_model.load({_OUTPUT.value!r}).signatures[{signatures.TRANSCRIBE!r}]"
        "(waveform=..., waveform_lengths=...)['text']"
    )
    return 0


if __name__ == "__main__":
    program.run(main)
