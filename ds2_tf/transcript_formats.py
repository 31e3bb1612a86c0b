"""Transcripts as text, JSON, and the subtitle formats SRT, WebVTT and TSV."""

import dataclasses
import html
import json
import unicodedata
from collections.abc import Callable, Iterator

from ds2_tf.transcript import Transcript, Word

# Two lines of 42 columns and 7 seconds are the customary limits of a subtitle.
_MAX_CUE_COLUMNS = 84
_MAX_CUE_MS = 7000
_CUE_PAUSE_MS = 800


@dataclasses.dataclass(frozen=True)
class Cue:
    """A line of subtitles and when it is shown, in whole milliseconds."""

    start_ms: int
    end_ms: int
    text: str


def cues(transcript: Transcript) -> list[Cue]:
    """Divides the words of a transcript into cues.

    A cue ends at a pause of 0.8 seconds or more, and before the word with which it would pass 84
    columns (East Asian characters take two) or 7 seconds.
    """
    return [_cue(words, transcript.separator) for words in _groups(transcript)]


def text(transcript: Transcript) -> str:
    """Returns the text alone, on one line."""
    return f"{transcript.text}\n"


def json_line(transcript: Transcript) -> str:
    """Returns a JSON object on one line.

    Its keys are `file`, `duration_seconds`, `text` and `words`, a list of objects with `text`,
    `start_seconds`, `end_seconds` and `confidence`.
    """
    content = {
        "file": transcript.audio_path,
        "duration_seconds": transcript.duration_seconds,
        "text": transcript.text,
        "words": [dataclasses.asdict(word) for word in transcript.words],
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n"


def srt(transcript: Transcript) -> str:
    """Returns SubRip subtitles: numbered cues with times such as 00:00:01,230."""
    return "".join(
        f"{number}\n{_clock(cue.start_ms, ',')} --> {_clock(cue.end_ms, ',')}\n{cue.text}\n\n"
        for number, cue in enumerate(cues(transcript), start=1)
    )


def vtt(transcript: Transcript) -> str:
    """Returns WebVTT subtitles; `&`, `<` and `>` are escaped."""
    return "WEBVTT\n\n" + "".join(
        f"{_clock(cue.start_ms, '.')} --> {_clock(cue.end_ms, '.')}\n"
        f"{html.escape(cue.text, quote=False)}\n\n"
        for cue in cues(transcript)
    )


def tsv(transcript: Transcript) -> str:
    """Returns a table with the header start, end, text; times are in whole milliseconds."""
    return "start\tend\ttext\n" + "".join(
        f"{cue.start_ms}\t{cue.end_ms}\t{cue.text}\n" for cue in cues(transcript)
    )


WRITERS: dict[str, Callable[[Transcript], str]] = {
    "text": text,
    "json": json_line,
    "srt": srt,
    "vtt": vtt,
    "tsv": tsv,
}
EXTENSIONS = {"text": ".txt", "json": ".json", "srt": ".srt", "vtt": ".vtt", "tsv": ".tsv"}


def _groups(transcript: Transcript) -> Iterator[list[Word]]:
    group: list[Word] = []
    for word in transcript.words:
        if group and (
            _milliseconds(word.start_seconds - group[-1].end_seconds) >= _CUE_PAUSE_MS
            or _milliseconds(word.end_seconds - group[0].start_seconds) > _MAX_CUE_MS
            or _columns(_joined([*group, word], transcript.separator)) > _MAX_CUE_COLUMNS
        ):
            yield group
            group = []
        group.append(word)
    if group:
        yield group


def _cue(words: list[Word], separator: str) -> Cue:
    start_ms = _milliseconds(words[0].start_seconds)
    # Players drop a cue that ends where it starts.
    end_ms = max(_milliseconds(words[-1].end_seconds), start_ms + 1)
    return Cue(start_ms, end_ms, _joined(words, separator))


def _joined(words: list[Word], separator: str) -> str:
    return separator.join(word.text for word in words)


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _columns(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def _clock(milliseconds: int, decimal_mark: str) -> str:
    seconds, thousandths = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{seconds:02d}{decimal_mark}{thousandths:03d}"
