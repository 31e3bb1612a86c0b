"""Which manifest a row goes to."""

import dataclasses
import difflib
import re
from collections.abc import Collection, Iterable, Sequence

from ds2_tf.errors import UserError
from ds2_tf.manifest import Utterance

_FILE_NAME = re.compile(r"\w[\w.+-]*")


def group(rows: Iterable[tuple[str, Utterance]]) -> dict[str, list[Utterance]]:
    """Returns the utterances of each split, in the order of the rows.

    Raises:
      UserError: when the name of a split cannot be the name of a file.
    """
    splits: dict[str, list[Utterance]] = {}
    for split, utterance in rows:
        if split not in splits and not _FILE_NAME.fullmatch(split):
            raise UserError(
                f"{utterance.manifest}:{utterance.line}: split {split!r} cannot name a file; "
                "use letters, digits, '_', '-', '+' and '.'"
            )
        splits.setdefault(split, []).append(utterance)
    return splits


def by_speaker(
    splits: dict[str, list[Utterance]],
    dev_speakers: Sequence[str],
    test_speakers: Sequence[str],
) -> dict[str, list[Utterance]]:
    """Returns new splits: the named speakers' in "dev" and "test", all else in "train".

    A row's own `split` field, where it has one, is set to its new split.

    Raises:
      UserError: when a named speaker does not occur, or is named for both.
    """
    utterances = [utterance for rows in splits.values() for utterance in rows]
    speakers = {utterance.speaker for utterance in utterances} - {""}
    new_splits: dict[str, str] = {}
    for split, named in (("dev", dev_speakers), ("test", test_speakers)):
        for speaker in named:
            if speaker not in speakers:
                raise UserError(
                    f"--{split}_speakers: speaker {speaker!r} does not occur; "
                    f"{_near(speaker, speakers)}"
                )
            if new_splits.setdefault(speaker, split) != split:
                raise UserError(
                    f"--{split}_speakers: {speaker!r} is also in --dev_speakers; name it in one of "
                    "them"
                )
    divided: dict[str, list[Utterance]] = {}
    for utterance in utterances:
        split = new_splits.get(utterance.speaker, "train")
        extra = utterance.extra | ({"split": split} if "split" in utterance.extra else {})
        divided.setdefault(split, []).append(dataclasses.replace(utterance, extra=extra))
    return divided


def _near(speaker: str, speakers: Collection[str]) -> str:
    """Returns which speakers may be meant."""
    near = difflib.get_close_matches(speaker, speakers, n=3)
    if near:
        return f"near: {', '.join(map(repr, near))}"
    if not speakers:
        return "the rows name no speakers"
    return f"there are {', '.join(map(repr, sorted(speakers)[:10]))}"
