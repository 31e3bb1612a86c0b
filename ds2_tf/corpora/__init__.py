"""Importers: recordings in other layouts become manifests.

A new corpus is one module here with a function `read` (see `reader.Reader`) and one line in
`READERS`; its module's docstring describes the layout.
"""

import os
import pathlib
from collections.abc import Iterator

from ds2_tf.corpora import librispeech, manifests
from ds2_tf.corpora.reader import Reader, Skipped
from ds2_tf.errors import UserError
from ds2_tf.manifest import Utterance

READERS: dict[str, Reader] = {
    "librispeech": librispeech.read,
    "manifests": manifests.read,
}


def read(
    corpus: str, source: str | os.PathLike, skipped: list[Skipped]
) -> Iterator[tuple[str, Utterance]]:
    """Yields (split, utterance) for each row of a corpus, in a fixed order.

    Args:
      corpus: a name in `READERS`.
      source: the corpus's folder.
      skipped: what cannot become a row is appended here.

    Raises:
      ValueError: for a corpus that is not known.
      UserError: when the source is no folder of this corpus's layout, or gives no row.
    """
    if corpus not in READERS:
        raise ValueError(f"corpus must be one of {', '.join(READERS)}. Received: {corpus!r}")
    folder = pathlib.Path(os.path.abspath(source))
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "no such folder"
        raise UserError(f"{source}: {problem}; name the folder of the corpus")
    empty = True
    for split, utterance in READERS[corpus](folder, skipped):
        empty = False
        yield split, utterance
    if empty:
        first = f", such as {skipped[0].path} ({skipped[0].reason})" if skipped else ""
        raise UserError(
            f"{source}: no recording with a transcript; skipped {len(skipped)}{first}; check that "
            "this is the whole corpus"
        )
