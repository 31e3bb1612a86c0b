"""Judges every row of a manifest before training.

Prints a table of what is wrong, by reason. Exit status: 0 when every row is good, 1 when any is
bad, 2 when the command line is wrong.

Reasons: audio_missing, audio_html, audio_empty, audio_unreadable, audio_truncated,
audio_bad_header, duration_off (by more than 0.1 s and 1 %), silent (less than 60 ms above
-60 dBFS), clipped (more than 5 samples in 1000 at full scale), transcript_empty,
unknown_characters, too_long_for_frames (labels + adjacent repeats > output frames),
implausible_rate (more letters than 25 a second + 5, or fewer than 2 a second after 5 s; a Chinese
character counts as 3 letters), duplicate (the same audio twice).

Examples:
  ds2 check_data --manifest=train.jsonl
  ds2 check_data --manifest=train.jsonl,dev.jsonl --report=report.jsonl --write_clean=clean.jsonl
  ds2 check_data --manifest=train.jsonl --allow=clipped,duplicate
  ds2 check_data --manifest=zh.jsonl --alphabet=transcripts
  ds2 check_data --manifest=new.jsonl --workdir=runs/english
"""

import os
import pathlib
import typing

from absl import flags

from ds2_tf.bin import program
from ds2_tf.errors import UserError

if typing.TYPE_CHECKING:
    from ds2_tf.alphabet import Alphabet
    from ds2_tf.features import FeatureConfig
    from ds2_tf.manifest import Utterance

_MANIFEST = flags.DEFINE_string(
    "manifest", None, "Manifest to check, or several separated by commas.", required=True
)
_ALPHABET = flags.DEFINE_string(
    "alphabet",
    "english",
    "An alphabet.json; 'english' (space, apostrophe, a to z, any case); or 'transcripts': whatever "
    "characters the manifest holds.",
)
_WORKDIR = flags.DEFINE_string(
    "workdir", None, "A trained model: its alphabet, sample rate and stride are taken."
)
_SAMPLE_RATE = flags.DEFINE_integer(
    "sample_rate_hz", 16000, "The model's sample rate.", lower_bound=1
)
_STRIDE = flags.DEFINE_integer(
    "frame_stride", 2, "The product of the model's strides in time.", lower_bound=1
)
_ALLOW = flags.DEFINE_list("allow", [], "Reasons that are tolerated.")
_REPORT = flags.DEFINE_string("report", None, "Write a JSON object a finding to this file.")
_CLEAN = flags.DEFINE_string("write_clean", None, "Write the rows without findings to this file.")


def main(arguments: list[str]) -> int:
    """Checks the manifests that --manifest names."""
    if arguments:
        raise program.UsageError(
            f"unexpected argument {arguments[0]!r}; name several manifests without blanks, as "
            "--manifest=a.jsonl,b.jsonl"
        )
    if _CLEAN.value and os.path.abspath(_CLEAN.value) in map(os.path.abspath, _MANIFEST.value):
        raise program.UsageError("--write_clean must name another file than --manifest")
    settings = (_ALPHABET, _SAMPLE_RATE, _STRIDE)
    for setting in settings if _WORKDIR.value else ():
        if setting.present:
            raise program.UsageError(f"--{setting.name} and --workdir exclude each other")

    program.load_tensorflow()
    from ds2_tf import data_check, data_report, manifest

    try:
        data_check.require_known(_ALLOW.value)
    except UserError as error:
        raise program.UsageError(f"--{error}") from error
    utterances = manifest.read(_MANIFEST.value)
    findings = data_check.check(utterances, *_read_model_settings(utterances), allow=_ALLOW.value)
    written = []
    try:  # The files come first: who reads the table may close the pipe.
        if _REPORT.value:
            data_report.write_report(_REPORT.value, findings)
            written.append(f"report: {_REPORT.value} ({len(findings)} findings)")
        if _CLEAN.value:
            good = data_check.clean(utterances, findings)
            manifest.write(_CLEAN.value, good)
            written.append(f"clean manifest: {_CLEAN.value} ({len(good)} rows)")
    finally:
        print(data_report.table(findings, utterances), *written, sep="\n")
    return program.EXIT_FAILED if findings else 0


def _read_model_settings(utterances: list["Utterance"]) -> tuple["Alphabet", "FeatureConfig", int]:
    """Returns alphabet, features and stride of --workdir, or of the other flags."""
    from ds2_tf import alphabet, features

    if _WORKDIR.value:
        from ds2_tf import config

        run = config.load(pathlib.Path(_WORKDIR.value, "config.json"))
        symbols = alphabet.Alphabet.load(pathlib.Path(_WORKDIR.value, "alphabet.json"))
        return symbols, run.features, run.model.time_stride
    if _ALPHABET.value == "english":
        symbols = alphabet.english()
    elif _ALPHABET.value == "transcripts":
        symbols = alphabet.from_transcripts(utterance.transcript for utterance in utterances)
    else:
        symbols = alphabet.Alphabet.load(_ALPHABET.value)
    return symbols, features.FeatureConfig(_SAMPLE_RATE.value), _STRIDE.value


if __name__ == "__main__":
    program.run(main)
