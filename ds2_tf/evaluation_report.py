"""What an evaluation found: as objects, as a page to read, as JSON."""

import dataclasses
import itertools
import json
import math
import os
import unicodedata
from collections.abc import Iterator
from typing import Any

from ds2_tf import atomic, metrics
from ds2_tf.manifest import Utterance
from ds2_tf.metrics import ErrorCounts

_EXAMPLES = 3
_LINE_COLUMNS = 100


@dataclasses.dataclass(frozen=True)
class UtteranceResult:
    """One utterance: its normalised transcript, what was heard, and the edits between them."""

    utterance: Utterance
    reference: str
    hypothesis: str
    word: ErrorCounts
    character: ErrorCounts


@dataclasses.dataclass(frozen=True)
class Unreadable:
    """An utterance that took no part because its recording cannot be read, and why."""

    utterance: Utterance
    message: str


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The error counts of a corpus and of each of its utterances, in the manifest's order.

    `spaced` says whether the language separates words by spaces. Where it doesn't, a "word" is what
    stands between two spaces, mostly a whole utterance; spaces are no characters, and the character
    error rate is the one to look at.
    """

    word: ErrorCounts
    character: ErrorCounts
    utterances: list[UtteranceResult]
    unreadable: list[Unreadable] = dataclasses.field(default_factory=list)
    spaced: bool = True

    def save_json(self, path: str | os.PathLike) -> None:
        """Writes everything, whole or not at all; an infinite rate is written as null."""
        content = {
            "word": _counts(self.word),
            "character": _counts(self.character),
            "num_utterances": len(self.utterances),
            "num_unreadable": len(self.unreadable),
            "utterances": [
                {
                    **_origin(result.utterance),
                    "reference": result.reference,
                    "hypothesis": result.hypothesis,
                    "word": _counts(result.word),
                    "character": _counts(result.character),
                }
                for result in self.utterances
            ],
            "unreadable": [
                {**_origin(row.utterance), "message": row.message} for row in self.unreadable
            ],
        }
        with atomic.open_for_write(path, "w") as file:
            json.dump(content, file, ensure_ascii=False, allow_nan=False, indent=1)
            file.write("\n")


def report(evaluation: Evaluation) -> str:
    """Returns a page: the table of error rates, then the best, median and worst utterances.

    References and hypotheses stand one above the other, unit by unit, with S, I and D below
    substitutions, insertions and deletions.
    """
    lines = [f"{'':<12}{'rate':>10}{'subst.':>10}{'insert.':>10}{'delet.':>10}{'reference':>12}"]
    for name, counts in (("words", evaluation.word), ("characters", evaluation.character)):
        lines.append(
            f"{name:<12}{_percent(counts.rate):>10}{counts.substitutions:>10}"
            f"{counts.insertions:>10}{counts.deletions:>10}{counts.reference_units:>12}"
        )
    if not evaluation.spaced:
        lines.append("A word is what stands between spaces, mostly a whole utterance: look at the")
        lines.append("characters, of which spaces are none.")
    lines += ["", f"{len(evaluation.utterances)} utterances"]
    if evaluation.unreadable:
        lines.append(f"{len(evaluation.unreadable)} left out because they cannot be read:")
        lines += [f"  {row.message}" for row in evaluation.unreadable]
    for title, results in _examples(evaluation):
        lines += ["", title]
        for result in results:
            lines += ["", *_side_by_side(result, evaluation.spaced)]
    return "\n".join(lines) + "\n"


def _examples(evaluation: Evaluation) -> Iterator[tuple[str, list[UtteranceResult]]]:
    """Yields titles with utterances; none occurs twice, and of equal rates the longest lead."""
    ranked = sorted(
        evaluation.utterances,
        key=lambda r: (r.word.rate, r.character.rate, -r.character.reference_units),
    )
    count = min(_EXAMPLES, math.ceil(len(ranked) / 3))
    middle = (len(ranked) - count) // 2
    best, worst = range(count), range(max(count, len(ranked) - count), len(ranked))
    median = [i for i in range(middle, middle + count) if i not in best and i not in worst]
    for title, indices in (("best", best), ("median", median), ("worst", reversed(worst))):
        if results := [ranked[i] for i in indices]:
            yield title, results


def _side_by_side(result: UtteranceResult, spaced: bool) -> Iterator[str]:
    errors = f"WER {_percent(result.word.rate)}, " if spaced else ""
    yield f"  {_place(result.utterance)}: {errors}CER {_percent(result.character.rate)}"
    units = (result.reference.split(), result.hypothesis.split())
    pairs = metrics.alignment(*(units if spaced else map("".join, units)))
    columns = []
    for reference, hypothesis in pairs:
        mark = "I" if reference is None else "D" if hypothesis is None else "S"
        cells = (reference or "*", hypothesis or "*", mark if reference != hypothesis else "")
        width = max(map(_width, cells))
        columns.append([cell + " " * (width - _width(cell)) for cell in cells])
    for chunk in _lines(columns) if columns else [[("", "", "")]]:
        for name, cells in zip(
            ("reference", "hypothesis", ""), zip(*chunk, strict=True), strict=True
        ):
            line = f"    {name:<12}{' '.join(cells)}".rstrip()
            if line or name:
                yield line


def _lines(columns: list[list[str]]) -> Iterator[list[list[str]]]:
    """Yields as many columns as fit on a line."""
    ends = itertools.accumulate(_width(cells[0]) + 1 for cells in columns)
    numbered = zip((end // _LINE_COLUMNS for end in ends), columns, strict=True)
    for _, group in itertools.groupby(numbered, key=lambda pair: pair[0]):
        yield [cells for _, cells in group]


def _width(cell: str) -> int:
    """Columns on a terminal: two for an East Asian character, none for a combining one."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in cell
    )


def _percent(rate: float) -> str:
    return f"{100 * rate:.2f} %" if math.isfinite(rate) else "infinite"


def _place(utterance: Utterance) -> str:
    where = f"{utterance.manifest}:{utterance.line}: " if utterance.line else ""
    return where + utterance.audio_path


def _origin(utterance: Utterance) -> dict[str, Any]:
    return {
        "manifest": utterance.manifest,
        "line": utterance.line,
        "audio_filepath": list(utterance.audio_paths),
        "duration": utterance.duration_seconds,
        "speaker": utterance.speaker,
    }


def _counts(counts: ErrorCounts) -> dict[str, Any]:
    rate = counts.rate if math.isfinite(counts.rate) else None
    return {"rate": rate, **dataclasses.asdict(counts)}
