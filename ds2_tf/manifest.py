"""Manifests: utterances as JSON lines, the audio's path, its duration and its transcript."""

import dataclasses
import difflib
import json
import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

from ds2_tf import atomic
from ds2_tf.errors import UserError

_REQUIRED = ("audio_filepath", "duration", "text")
_OPTIONAL = ("pause_seconds", "speaker")
_SHOWN_ERRORS = 5


@dataclasses.dataclass(frozen=True)
class Utterance:
    """One row of a manifest: a recording and what is said in it.

    Attributes:
      audio_paths: usually one file; several are joined in this order when they are read.
      duration_seconds: of the whole, pauses included.
      transcript: the text as the manifest gives it.
      pauses_seconds: the silence after each part but the last; () for no silence.
      speaker: who speaks, "" when unknown.
      line: where the row stands in `manifest`, counted from 1; 0 when made by a program.
      manifest: the path of the manifest, for messages.
      extra: the row's other fields, kept when it is written; no part of comparisons.
    """

    audio_paths: tuple[str, ...]
    duration_seconds: float
    transcript: str
    pauses_seconds: tuple[float, ...] = ()
    speaker: str = ""
    line: int = 0
    manifest: str = ""
    extra: dict[str, Any] = dataclasses.field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if not self.audio_paths or isinstance(self.audio_paths, str):
            raise ValueError(
                f"audio_paths must be a tuple of paths. Received: {self.audio_paths!r}"
            )
        if self.pauses_seconds and len(self.pauses_seconds) != len(self.audio_paths) - 1:
            raise ValueError(
                f"{len(self.audio_paths)} parts need {len(self.audio_paths) - 1} pauses between "
                f"them. Received: {len(self.pauses_seconds)}"
            )

    @property
    def audio_path(self) -> str:
        """The recording's name for messages: "first.flac (+3 more)" when it is joined."""
        more = len(self.audio_paths) - 1
        return f"{self.audio_paths[0]} (+{more} more)" if more else self.audio_paths[0]


def read(paths: str | os.PathLike | Sequence[str | os.PathLike]) -> list[Utterance]:
    """Reads manifests, one after the other.

    Each line is a JSON object with `audio_filepath` (a path, or a list of paths to be joined),
    `duration` in seconds and `text`; optional are `pause_seconds` (a list, the silence after each
    part but the last) and `speaker`. Other fields are kept in `extra`. Relative paths resolve
    against the manifest's folder. A byte-order mark, CRLF and blank lines do no harm.

    Args:
      paths: one path, several separated by commas (blanks around them are ignored), or a list.

    Raises:
      UserError: naming file and line of the first malformed rows, for a manifest that is missing,
        empty or malformed.
    """
    utterances = []
    for path in _split_paths(paths):
        found = _read_one(path)
        if not found:
            raise UserError(f"{path}: holds no utterances; write one JSON object a line")
        utterances += found
    return utterances


def write(path: str | os.PathLike, utterances: Iterable[Utterance]) -> None:
    """Writes a manifest, whole or not at all.

    Audio below the manifest's folder is named relative to it, other audio by its absolute path.
    """
    folder = os.path.dirname(os.path.abspath(path))
    with atomic.open_for_write(path, "w") as file:
        for utterance in utterances:
            names = [_relative_to(folder, audio) for audio in utterance.audio_paths]
            row: dict[str, Any] = {
                "audio_filepath": names[0] if len(names) == 1 else names,
                "duration": utterance.duration_seconds,
                "text": utterance.transcript,
            }
            if utterance.pauses_seconds:
                row["pause_seconds"] = list(utterance.pauses_seconds)
            if utterance.speaker:
                row["speaker"] = utterance.speaker
            row |= {key: value for key, value in utterance.extra.items() if key not in row}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _split_paths(paths: str | os.PathLike | Sequence[str | os.PathLike]) -> list[str]:
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    found: list[str] = []
    for item in [os.fspath(path) for path in given]:
        whole = os.path.exists(item)  # A file's own name may hold a comma.
        found += [item] if whole else [part.strip() for part in item.split(",") if part.strip()]
    if not found:
        raise UserError("no manifest is named; give the path of a .jsonl file")
    return found


def _read_one(path: str) -> list[Utterance]:
    utterances = []
    errors: list[UserError] = []
    try:
        with open(path, "rb") as file:
            for number, raw_line in enumerate(file, start=1):
                try:
                    text = _decode(raw_line, f"{path}:{number}").strip()
                    if text:
                        utterances.append(_parse_line(text, path, number))
                except UserError as error:
                    errors.append(error)
    except OSError as error:
        raise UserError(
            f"{path}: the manifest cannot be read ({error.strerror}); check the path"
        ) from error
    if errors:
        shown = [str(error) for error in errors[:_SHOWN_ERRORS]]
        hidden = len(errors) - len(shown)
        more = [f"and {hidden} lines more"] if hidden else []
        raise UserError(" | ".join([*shown, *more])) from errors[0]
    return utterances


def _decode(raw_line: bytes, where: str) -> str:
    try:
        return raw_line.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise UserError(f"{where}: is not UTF-8 text; convert the manifest to UTF-8") from error


def _parse_line(text: str, path: str, number: int) -> Utterance:
    where = f"{path}:{number}"
    try:
        row = json.loads(text)
    except ValueError as error:
        raise UserError(
            f"{where}: is not JSON ({error}); each line must be one JSON object with "
            f"{', '.join(_REQUIRED)}"
        ) from error
    if not isinstance(row, dict):
        raise UserError(f"{where}: is not a JSON object; write {{...}} with {', '.join(_REQUIRED)}")
    _check_keys(row, where)
    audio_paths = _parse_audio(row["audio_filepath"], os.path.dirname(path), where)
    speaker = row.get("speaker", "")
    return Utterance(
        audio_paths=audio_paths,
        duration_seconds=_parse_seconds(row["duration"], "duration", where),
        transcript=_parse_text(row["text"], where),
        pauses_seconds=_parse_pauses(row.get("pause_seconds", []), len(audio_paths), where),
        speaker="" if speaker is None else str(speaker),
        line=number,
        manifest=path,
        extra={key: value for key, value in row.items() if key not in _REQUIRED + _OPTIONAL},
    )


def _check_keys(row: dict[str, Any], where: str) -> None:
    unknown = [key for key in row if key not in _REQUIRED + _OPTIONAL]
    for key in _REQUIRED + _OPTIONAL:
        if key in row:
            continue
        required = key in _REQUIRED
        near = difflib.get_close_matches(key, unknown, n=1, cutoff=0.6 if required else 0.85)
        if near:
            raise UserError(f"{where}: unknown key {near[0]!r}, did you mean {key!r}?; rename it")
        if required:
            raise UserError(f"{where}: key {key!r} is missing; add it to the line")
    if row.get("offset"):
        raise UserError(
            f"{where}: 'offset' is not supported; cut the recording into a file an utterance"
        )


def _parse_audio(value: Any, folder: str, where: str) -> tuple[str, ...]:
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) and name.strip() for name in names):
        raise UserError(
            f"{where}: 'audio_filepath' must be a path or a list of paths, not {value!r}; correct "
            "the line"
        )
    return tuple(os.path.abspath(os.path.join(folder, name)) for name in names)


def _parse_text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise UserError(f"{where}: 'text' must be a string, not {value!r}; correct the line")
    return value


def _parse_seconds(value: Any, key: str, where: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:
        raise UserError(
            f"{where}: {key!r} must be a number of seconds, not {value!r}; correct the line"
        )
    return float(value)


def _parse_pauses(value: Any, num_parts: int, where: str) -> tuple[float, ...]:
    if not isinstance(value, list):
        raise UserError(f"{where}: 'pause_seconds' must be a list, not {value!r}; correct the line")
    if value and len(value) != num_parts - 1:
        raise UserError(
            f"{where}: 'pause_seconds' holds {len(value)} numbers for {num_parts} parts, which "
            f"need {num_parts - 1}; correct the line"
        )
    return tuple(_parse_seconds(pause, "pause_seconds", where) for pause in value)


def _relative_to(folder: str, path: str) -> str:
    path = os.path.abspath(path)
    inside = os.path.commonpath([folder, path]) == folder
    return os.path.relpath(path, folder) if inside else path
