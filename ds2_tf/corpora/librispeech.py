"""The original LibriSpeech tree: [subset/]speaker/chapter/speaker-chapter.trans.txt and recordings.

Source: Panayotov et al. 2015, "Librispeech: an ASR corpus based on public domain audio books";
https://www.openslr.org/12.
"""

import os
import pathlib
from collections.abc import Iterator

from ds2_tf import audio
from ds2_tf.corpora.reader import AUDIO_SUFFIXES, Skipped, audio_rank
from ds2_tf.errors import UserError
from ds2_tf.manifest import Utterance

_TRANSCRIPTS = ".trans.txt"
_SPEAKERS = "SPEAKERS.TXT"


def read(source: pathlib.Path, skipped: list[Skipped]) -> Iterator[tuple[str, Utterance]]:
    """Yields (subset, utterance) for each transcript that has a recording.

    `source` is the folder of the subsets, or one subset, speaker or chapter. Recordings may be of
    any kind that `audio` decodes; durations are those of the files. Rows keep `speaker`,
    `chapter` and, where SPEAKERS.TXT lies beside the subsets, `gender`.

    Args:
      source: an existing folder, absolute.
      skipped: gets transcripts without a recording, recordings without a transcript, and what
        cannot be read.

    Raises:
      UserError: when no transcript file lies below `source`, or one is not UTF-8.
    """
    genders: dict[pathlib.Path, dict[str, str]] = {}
    found = False
    for folder, names in _walk(source):
        recordings: dict[str, list[pathlib.Path]] = {}
        for name in names:
            path = folder / name
            if path.suffix.lower() in AUDIO_SUFFIXES:
                recordings.setdefault(path.stem, []).append(path)
        for name in names:
            if name.endswith(_TRANSCRIPTS):
                found = True
                yield from _read_chapter(folder / name, recordings, genders, skipped)
        for paths in recordings.values():
            skipped.extend(Skipped(str(path), "recording without a transcript") for path in paths)
    if not found:
        raise UserError(
            f"{source}: no *{_TRANSCRIPTS} below this folder; "
            "name the folder that holds LibriSpeech's subsets, such as LibriSpeech/"
        )


def _read_chapter(
    transcripts: pathlib.Path,
    recordings: dict[str, list[pathlib.Path]],
    genders: dict[pathlib.Path, dict[str, str]],
    skipped: list[Skipped],
) -> Iterator[tuple[str, Utterance]]:
    """Yields the rows of one transcript file and takes their recordings out of `recordings`."""
    folder = transcripts.parent
    speaker, subset = folder.parent.name, folder.parent.parent.name
    extra = {"chapter": folder.name}
    gender = _gender(speaker, folder, genders)
    if gender:
        extra["gender"] = gender
    seen: set[str] = set()
    for number, line in enumerate(_read_text(transcripts).splitlines(), start=1):
        identifier, _, text = line.strip().partition(" ")
        if not identifier:
            continue
        place = f"{transcripts}:{number}"
        paths = sorted(recordings.pop(identifier, []), key=audio_rank)
        if not paths:
            reason = "transcript given twice" if identifier in seen else "transcript without audio"
            skipped.append(Skipped(place, reason, identifier))
            continue
        seen.add(identifier)
        skipped.extend(
            Skipped(str(path), "second recording of an utterance", f"{paths[0].name} is used")
            for path in paths[1:]
        )
        try:
            info = audio.probe(paths[0])
        except audio.AudioError as error:
            skipped.append(Skipped(str(paths[0]), f"recording is {error.reason}", str(error)))
            continue
        yield (
            subset,
            Utterance(
                audio_paths=(str(paths[0]),),
                duration_seconds=round(info.num_frames / info.sample_rate_hz, 3),
                transcript=text.strip(),
                speaker=speaker,
                line=number,
                manifest=str(transcripts),
                extra=dict(extra),
            ),
        )


def _walk(source: pathlib.Path) -> Iterator[tuple[pathlib.Path, list[str]]]:
    """Yields each folder below `source` with its sorted files, following links but no loops."""
    visited: set[str] = set()
    for folder, subfolders, names in os.walk(source, followlinks=True):
        real = os.path.realpath(folder)
        if real in visited:
            subfolders.clear()
            continue
        visited.add(real)
        subfolders.sort()
        yield pathlib.Path(folder), sorted(names)


def _gender(
    speaker: str, chapter: pathlib.Path, known: dict[pathlib.Path, dict[str, str]]
) -> str | None:
    """Looks the speaker up in the SPEAKERS.TXT of the folder above the subset, or the subset's."""
    for folder in (chapter.parent.parent.parent, chapter.parent.parent):
        if folder not in known:
            path = folder / _SPEAKERS
            known[folder] = _read_speakers(path) if path.is_file() else {}
        if speaker in known[folder]:
            return known[folder][speaker]
    return None


def _read_speakers(path: pathlib.Path) -> dict[str, str]:
    """Returns each speaker's gender ("F" or "M") from lines "14 | F | train-clean-360 | ..."."""
    genders = {}
    for line in _read_text(path).splitlines():
        fields = [field.strip() for field in line.split("|")]
        if not line.startswith(";") and len(fields) > 2:
            genders[fields[0]] = fields[1]
    return genders


def _read_text(path: pathlib.Path) -> str:
    """Returns a text file's content without a byte-order mark."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise UserError(f"{path}:{line}: not UTF-8 text; convert the file to UTF-8") from error
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror}); check the file and its permissions"
        ) from error
