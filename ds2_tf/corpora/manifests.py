"""Folders that bring a manifest.jsonl: one, or several beside each other."""

import pathlib
from collections.abc import Iterator

from ds2_tf import manifest
from ds2_tf.corpora.reader import Skipped
from ds2_tf.errors import UserError
from ds2_tf.manifest import Utterance

_NAME = "manifest.jsonl"


def read(source: pathlib.Path, skipped: list[Skipped]) -> Iterator[tuple[str, Utterance]]:
    """Yields (split, utterance) for each row; the split is the row's, or the folder's name.

    Args:
      source: an existing folder, absolute: with a manifest.jsonl, or else with subfolders that
        have one each.
      skipped: not used: every row of a manifest becomes a row.

    Raises:
      UserError: when there is no manifest.jsonl, or one of them is broken.
    """
    del skipped
    for path in _find(source):
        for utterance in manifest.read(str(path)):
            yield str(utterance.extra.get("split") or path.parent.name), utterance


def _find(source: pathlib.Path) -> list[pathlib.Path]:
    if (source / _NAME).is_file():
        return [source / _NAME]
    found = sorted(source.glob(f"*/{_NAME}"))
    if not found:
        raise UserError(
            f"{source}: no {_NAME} in this folder or its subfolders; name the folder that holds it"
        )
    return found
