"""Shows what `data_check` found: a table for people, JSON lines for programs."""

import collections
import json
import os
from collections.abc import Iterable, Sequence

from ds2_tf import atomic, data_check
from ds2_tf.data_rules import REASONS, Finding, list_characters
from ds2_tf.manifest import Utterance

_LISTED_CHARACTERS = 40


def table(findings: Sequence[Finding], utterances: Sequence[Utterance]) -> str:
    """Returns rows, share and hours by reason, in total and good; and an example of each reason.

    Hours are those of the manifest's durations.
    """
    rows: dict[str, set[int]] = {}
    examples: dict[str, Finding] = {}
    characters: collections.Counter[str] = collections.Counter()
    for finding in findings:
        rows.setdefault(finding.reason, set()).add(finding.row)
        examples.setdefault(finding.reason, finding)
        characters += finding.characters
    good = data_check.clean(utterances, findings)
    reasons = sorted(rows, key=REASONS.index)
    lines = [f"{'':<20} {'rows':>8} {'share':>7} {'hours':>9}"]
    for reason in reasons:
        bad = [utterances[row] for row in rows[reason]]
        lines.append(_line(reason, bad, utterances))
    lines += [_line("total", utterances, utterances), _line("good", good, utterances)]
    for reason in reasons:
        lines += [f"{reason}, for example:", f"  {describe(examples[reason])}"]
    if characters:
        listed = list_characters(characters, _LISTED_CHARACTERS)
        lines.append(f"characters outside the alphabet: {listed}")
    return "\n".join(lines)


def describe(finding: Finding) -> str:
    """Returns "MANIFEST:LINE: AUDIO: what is wrong; remedy", in one line."""
    utterance = finding.utterance
    place = f"{utterance.manifest}:{utterance.line}" if utterance.line else f"row {finding.row}"
    return f"{place}: {utterance.audio_path}: {finding.detail}; {finding.remedy}"


def write_report(path: str | os.PathLike, findings: Iterable[Finding]) -> None:
    """Writes a JSON object a finding: manifest, line, audio_filepath, reason, detail, remedy.

    `audio_filepath` is a list for a joined utterance. The file appears whole or not at all.
    """
    with atomic.open_for_write(path, "w") as file:
        for finding in findings:
            paths = finding.utterance.audio_paths
            row = {
                "manifest": finding.utterance.manifest,
                "line": finding.utterance.line,
                "audio_filepath": paths[0] if len(paths) == 1 else list(paths),
                "reason": finding.reason,
                "detail": finding.detail,
                "remedy": finding.remedy,
            }
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _line(name: str, rows: Sequence[Utterance], all_rows: Sequence[Utterance]) -> str:
    share = len(rows) / max(1, len(all_rows))
    hours = sum(utterance.duration_seconds for utterance in rows) / 3600
    return f"{name:<20} {len(rows):>8} {share:>7.1%} {hours:>9.2f}"
