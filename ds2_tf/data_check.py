"""Judges every row of a manifest before training, so that nothing is lost silently or fails later.

`audio_facts` measures the recordings, `data_rules` judges, `data_report` shows the result.
"""

import collections
import difflib
import typing
from collections.abc import Collection, Iterator, Sequence

import tqdm

from ds2_tf import audio_facts, data_rules
from ds2_tf.alphabet import Alphabet
from ds2_tf.audio import AudioError
from ds2_tf.audio_facts import AudioFacts
from ds2_tf.data_rules import REASONS, Finding, Row
from ds2_tf.errors import UserError
from ds2_tf.manifest import Utterance

if typing.TYPE_CHECKING:  # Importing TensorFlow takes seconds.
    from ds2_tf.features import FeatureConfig

_QUOTED_CHARACTERS = 40


def check(
    utterances: Sequence[Utterance],
    alphabet: Alphabet,
    feature_config: "FeatureConfig",
    frame_stride: int,
    allow: Collection[str] = (),
    *,
    progress: bool = True,
) -> list[Finding]:
    """Returns what is wrong, in the order of the rows; a row may have several findings.

    Each file is decoded once, in a few threads, however many rows join it; of each row and file a
    few numbers stay in memory.

    Args:
      utterances: the rows of one manifest or several.
      alphabet: decides what a transcript may hold.
      feature_config: decides how many frames T a recording has.
      frame_stride: the product of the model's strides in time: T' = (T - 1) // frame_stride + 1.
      allow: reasons that are tolerated: not reported.
      progress: whether to show a bar on stderr.

    Raises:
      UserError: for an unknown reason in `allow`.
      ValueError: for frame_stride < 1.
    """
    require_known(allow)
    if frame_stride < 1:
        raise ValueError(f"frame_stride must be >= 1. Received: {frame_stride}")
    found: list[list[Finding]] = []
    same_audio: dict[tuple, list[int]] = {}
    rows = tqdm.tqdm(
        _measured(utterances), "checking", len(utterances), unit="row", disable=not progress
    )
    for row in rows:
        findings = [
            *data_rules.audio_findings(row),
            *data_rules.transcript_findings(row, alphabet),
            *data_rules.fit_findings(row, alphabet, feature_config, frame_stride),
        ]
        found.append([finding for finding in findings if finding.reason not in allow])
        if row.facts is not None:
            pauses = row.utterance.pauses_seconds
            key = (*(part.digest for part in row.facts), pauses if any(pauses) else ())
            same_audio.setdefault(key, []).append(row.index)
    if "duplicate" not in allow:
        for group in same_audio.values():
            for finding in _duplicates(group, utterances, found, alphabet):
                found[finding.row].append(finding)
    return [
        finding for row in found for finding in sorted(row, key=lambda f: REASONS.index(f.reason))
    ]


def clean(utterances: Sequence[Utterance], findings: Sequence[Finding]) -> list[Utterance]:
    """Returns the rows without findings, in order."""
    bad = {finding.row for finding in findings}
    return [utterance for row, utterance in enumerate(utterances) if row not in bad]


def require_known(reasons: Collection[str]) -> None:
    """Raises UserError for the first name that is not in `REASONS`; it names the near one."""
    for reason in reasons:
        if reason not in REASONS:
            near = difflib.get_close_matches(reason, REASONS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(REASONS)}"
            raise UserError(f"allow: {reason!r} is not a reason; {hint}")


def _measured(utterances: Sequence[Utterance]) -> Iterator[Row]:
    """Yields each row with the facts of its files, which are forgotten after their last use."""
    uses = collections.Counter(path for u in utterances for path in u.audio_paths)
    measured = audio_facts.measure_all(list(uses))
    facts: dict[str, AudioFacts | AudioError] = {}
    for index, utterance in enumerate(utterances):
        for path in utterance.audio_paths:
            while path not in facts:
                done, result = next(measured)
                facts[done] = result
        yield Row(index, utterance, [facts[path] for path in utterance.audio_paths])
        for path in utterance.audio_paths:
            uses[path] -= 1
            if not uses[path]:
                del facts[path], uses[path]


def _duplicates(
    group: Sequence[int],
    utterances: Sequence[Utterance],
    found: Sequence[Sequence[Finding]],
    alphabet: Alphabet,
) -> Iterator[Finding]:
    """Yields a finding for each row of equal audio but the one to keep.

    Kept is the first that is good otherwise. Where a transcript contradicts its, one of the two is
    wrong and nobody knows which: then the row to keep is a finding too.
    """
    keep = next((row for row in group if not found[row]), group[0])
    kept_text = alphabet.normalize(utterances[keep].transcript)
    contradicted = False
    for index in group:
        if index == keep:
            continue
        text = alphabet.normalize(utterances[index].transcript)
        differs = bool(text and kept_text and text != kept_text)
        yield _duplicate(index, keep, utterances, differs)
        if differs and not contradicted:
            contradicted = True
            yield _duplicate(keep, index, utterances, differs)


def _duplicate(index: int, other: int, utterances: Sequence[Utterance], differs: bool) -> Finding:
    utterance, same = utterances[index], utterances[other]
    place = f"{same.manifest}:{same.line}" if same.line else f"row {other}"
    detail = f"same audio as {place} ({same.audio_path})"
    remedy = ""
    if differs:
        detail += f", but {_quote(utterance.transcript)} here and {_quote(same.transcript)} there"
        remedy = "listen, and remove the row with the wrong text"
    return Row(index, utterance, ()).finding("duplicate", detail, remedy)


def _quote(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= _QUOTED_CHARACTERS else text[: _QUOTED_CHARACTERS - 3] + "...")
