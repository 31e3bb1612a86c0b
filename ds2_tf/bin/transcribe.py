"""Transcribe recordings of any length with a trained model.

Usage: ds2 transcribe --workdir=DIR [--flag=value ...] FILE ...

A FILE is a recording, a folder (searched through for recordings), or - for standard input. One FILE
gives its text on one line; several, or a folder, give lines of path, tab, text. With --format=json
each line is an object with file, duration, text, and words with their times and confidence. A file
that cannot be read is reported, the others are done, and the exit status is 1.

Examples:
  ds2 transcribe --workdir=runs/english talk.mp3
  ds2 transcribe --workdir=runs/english --format=srt --output=talk.srt talk.mp3
  ds2 transcribe --workdir=runs/english --format=vtt --output_dir=subtitles recordings/
  ds2 transcribe --workdir=runs/english --lm=english.binary --hot_words="ann:5,new york:3" talk.mp3
  ffmpeg -loglevel error -i film.mkv -f wav - | ds2 transcribe --workdir=runs/english -
"""

import contextlib
import os
import sys

from absl import flags

from ds2_tf.bin import decoder_flags, program

_FORMATS = ("text", "json", "srt", "vtt", "tsv")
_ONE_FILE_FORMATS = ("srt", "vtt", "tsv")

_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the trained model.")
_FORMAT = flags.DEFINE_enum("format", "text", _FORMATS, "What to write.")
_OUTPUT = flags.DEFINE_string("output", None, "Write to this file instead of standard output.")
_OUTPUT_DIR = flags.DEFINE_string("output_dir", None, "Write a file for each recording here.")
flags.adopt_module_key_flags(decoder_flags)


def main(arguments: list[str]) -> int:
    """Transcribes the files that the arguments name."""
    several = len(arguments) > 1 or os.path.isdir("".join(arguments))
    if not _WORKDIR.value:
        raise program.UsageError("--workdir is required")
    if not arguments:
        raise program.UsageError("name at least one FILE, a folder, or - for standard input")
    if _OUTPUT.value and _OUTPUT_DIR.value:
        raise program.UsageError("--output and --output_dir exclude each other")
    if several and _FORMAT.value in _ONE_FILE_FORMATS and not _OUTPUT_DIR.value:
        raise program.UsageError(f"--format={_FORMAT.value} of several files needs --output_dir")

    settings = decoder_flags.read(_WORKDIR.value)
    from tqdm import tqdm

    program.load_tensorflow()
    from ds2_tf import transcribe_files
    from ds2_tf.acoustic_model import AcousticModel
    from ds2_tf.transcribe import Transcriber

    recordings = transcribe_files.find(arguments)
    num_failed = 0

    def failed(error: Exception) -> None:
        nonlocal num_failed
        num_failed += 1
        tqdm.write(f"error: {error}", file=sys.stderr)

    with contextlib.ExitStack() as stack:
        if _OUTPUT_DIR.value:
            write = transcribe_files.to_folder(_OUTPUT_DIR.value, _FORMAT.value, recordings)
        else:
            file = stack.enter_context(transcribe_files.open_output(_OUTPUT.value))
            write = transcribe_files.to_file(file, _FORMAT.value, several)
        model = AcousticModel.load(_WORKDIR.value)
        transcriber = Transcriber(model, decoder=decoder_flags.made_for(model, settings))
        bar = tqdm(recordings, "transcribing", unit="file", disable=_quiet())
        transcribe_files.transcribe_each(transcriber, bar, write, failed)
        if num_failed == len(recordings):
            sys.exit(program.EXIT_FAILED)  # Leaves an older --output as it was.
    return program.EXIT_FAILED if num_failed else 0


def _quiet() -> bool:
    """Whether a bar would disturb: the transcripts themselves are shown, or nobody looks."""
    to_files = bool(_OUTPUT.value or _OUTPUT_DIR.value)
    return not (to_files and sys.stderr.isatty())


if __name__ == "__main__":
    program.run(main)
