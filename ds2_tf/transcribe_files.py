"""Many recordings, one after the other: finding them, and where their transcripts go."""

import contextlib
import dataclasses
import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from ds2_tf import atomic, transcript_formats
from ds2_tf.audio import AudioError
from ds2_tf.errors import UserError
from ds2_tf.transcribe import Transcriber
from ds2_tf.transcript import Transcript

STDIN = "-"
# What libsndfile reads; a file that is named itself may have any extension.
AUDIO_EXTENSIONS = (
    *(".aif", ".aifc", ".aiff", ".au", ".caf", ".flac", ".mp3", ".oga", ".ogg", ".opus", ".rf64"),
    *(".snd", ".w64", ".wav", ".wave"),
)


@dataclasses.dataclass(frozen=True)
class Recording:
    """A file to transcribe.

    Attributes:
      path: of the file, or "-" for standard input.
      name: of its transcript in an output folder, without extension; below the name of the folder
        that was searched its own path is kept.
    """

    path: str
    name: str


Write = Callable[[Recording, Transcript], None]


def find(paths: Sequence[str]) -> list[Recording]:
    """Returns the recordings that paths name: files as they are, folders searched through, "-".

    In folders, files with an audio extension are taken, sorted by path; hidden ones are not.

    Raises:
      UserError: for a folder that holds no recording or cannot be read.
    """
    found = []
    for path in paths:
        if path == STDIN:
            found.append(Recording(STDIN, "stdin"))
        elif os.path.isdir(path):
            found += _search(pathlib.Path(path))
        else:
            found.append(Recording(path, pathlib.Path(path).stem))
    return found


def transcribe_each(
    transcriber: Transcriber,
    recordings: Sequence[Recording],
    write: Write,
    failed: Callable[[AudioError], None],
) -> None:
    """Transcribes each recording and hands it to `write`, or its error to `failed` and goes on."""
    for recording in recordings:
        source = sys.stdin.buffer if recording.path == STDIN else recording.path
        try:
            transcript = transcriber.transcribe(source)
        except AudioError as error:
            failed(error)
        else:
            write(recording, transcript)


@contextlib.contextmanager
def open_output(path: str | None) -> Iterator[IO[str]]:
    """Opens a file that appears whole or not at all; None is standard output, in UTF-8."""
    if path is None:
        with open(sys.stdout.fileno(), "w", encoding="utf-8", closefd=False) as file:
            yield file
    else:
        with atomic.open_for_write(path, "w") as file:
            yield file


def to_file(file: IO[str], format_name: str, with_paths: bool) -> Write:
    """Returns the function that appends transcripts to an open file.

    Args:
      file: open for text.
      format_name: a key of `transcript_formats.WRITERS`.
      with_paths: whether lines of text begin with the recording's path and a tab.
    """
    writer = transcript_formats.WRITERS[format_name]

    def write(recording: Recording, transcript: Transcript) -> None:
        prefix = f"{recording.path}\t" if with_paths and format_name == "text" else ""
        file.write(prefix + writer(transcript))
        file.flush()

    return write


def to_folder(folder: str, format_name: str, recordings: Sequence[Recording]) -> Write:
    """Returns the function that writes each transcript to a file of its own, whole or not at all.

    Raises:
      UserError: when two of the recordings would have the same file.
    """
    writer = transcript_formats.WRITERS[format_name]
    extension = transcript_formats.EXTENSIONS[format_name]
    owners: dict[str, str] = {}
    for recording in recordings:
        path = os.path.join(folder, recording.name + extension)
        other = owners.setdefault(path, recording.path)
        if other != recording.path:
            raise UserError(
                f"{path} would hold the transcripts of both {other} and {recording.path}; "
                "transcribe them into different folders"
            )

    def write(recording: Recording, transcript: Transcript) -> None:
        path = os.path.join(folder, recording.name + extension)
        with atomic.open_for_write(path, "w") as file:
            file.write(writer(transcript))

    return write


def _search(folder: pathlib.Path) -> Iterator[Recording]:
    found = []
    for parent, folders, names in os.walk(folder, onerror=_cannot_search):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [
            pathlib.Path(parent, name)
            for name in names
            if name.lower().endswith(AUDIO_EXTENSIONS) and not name.startswith(".")
        ]
    if not found:
        raise UserError(
            f"{folder}: holds no recording ({', '.join(AUDIO_EXTENSIONS)}); name the files "
            "themselves"
        )
    for path in sorted(found):
        yield Recording(str(path), str(path.relative_to(folder).with_suffix("")))


def _cannot_search(error: OSError) -> None:
    raise UserError(
        f"{error.filename}: cannot be searched ({error.strerror}); name folders you may read"
    )
