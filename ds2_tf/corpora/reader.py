"""What every corpus reader takes and gives."""

import collections
import dataclasses
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Protocol

from ds2_tf import atomic
from ds2_tf.manifest import Utterance

AUDIO_SUFFIXES = (".flac", ".wav", ".opus", ".ogg", ".oga", ".mp3")
"""Files that count as recordings, lossless kinds first."""

_NAMED = 5


@dataclasses.dataclass(frozen=True)
class Skipped:
    """Something in the source that did not become a row.

    Attributes:
      path: the recording, or the line "FILE:LINE" of the transcript.
      reason: why, in words that are the same for all items of one kind, to count them by.
      detail: what is particular to this item; may be empty.
    """

    path: str
    reason: str
    detail: str = ""


class Reader(Protocol):
    """A function that reads one corpus."""

    def __call__(
        self, source: pathlib.Path, skipped: list[Skipped]
    ) -> Iterator[tuple[str, Utterance]]:
        """Yields (split, utterance) in a fixed order.

        Args:
          source: an existing folder, absolute.
          skipped: what cannot become a row is appended here, never dropped silently.

        Raises:
          UserError: when the source is not of this corpus's layout.
        """


def summarize_skipped(skipped: Sequence[Skipped], path: str) -> str:
    """Returns a line for each reason: how many items, the first few, the file that lists all."""
    items: dict[str, list[Skipped]] = collections.defaultdict(list)
    for item in skipped:
        items[item.reason].append(item)
    lines = []
    for reason, same in items.items():
        named = ", ".join(
            f"{item.path} ({item.detail})" if item.detail else item.path for item in same[:_NAMED]
        )
        more = f" and {len(same) - _NAMED} more" if len(same) > _NAMED else ""
        lines.append(f"skipped: {reason}: {len(same)}: {named}{more}; all are listed in {path}")
    return "\n".join(lines)


def write_skipped(path: str | os.PathLike, skipped: Sequence[Skipped]) -> None:
    """Writes a line an item: reason, path and detail, separated by tabs."""
    with atomic.open_for_write(path, "w") as file:
        for item in skipped:
            file.write(f"{item.reason}\t{item.path}\t{item.detail}\n")


def audio_rank(path: pathlib.Path) -> int:
    """Returns the place of a file's kind in `AUDIO_SUFFIXES`."""
    return AUDIO_SUFFIXES.index(path.suffix.lower())
