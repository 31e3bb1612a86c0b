"""From texts to the tokens that a language model is estimated of, within a vocabulary."""

import collections
import dataclasses
import os
import pathlib
from collections.abc import Collection, Iterable, Iterator, Sequence

import tqdm

from ds2_tf.decoding import lm_corpus, lm_text
from ds2_tf.decoding.lm_arpa import STAND_IN
from ds2_tf.decoding.lm_corpus import Source
from ds2_tf.errors import UserError

_SPECIAL = frozenset({"<s>", "</s>", "<unk>", "<UNK>", "<S>", "</S>"})
"""What KenLM refuses as a word of the text."""

_SHOWN = 5


@dataclasses.dataclass(frozen=True)
class Coverage:
    """What of the texts the vocabulary holds.

    Attributes:
      num_sentences: lines that hold a token.
      num_tokens: in all.
      num_distinct: different tokens that can be written in the alphabet.
      num_kept: of these, the vocabulary's.
      num_unwritable: tokens with characters outside the alphabet.
      num_left_out: tokens beyond the vocabulary's limit.
      outside: the characters outside the alphabet, most frequent first.
      left_out: the most frequent tokens beyond the limit.
      sources: the texts that were read.
    """

    num_sentences: int
    num_tokens: int
    num_distinct: int
    num_kept: int
    num_unwritable: int
    num_left_out: int
    outside: list[tuple[str, int]]
    left_out: list[tuple[str, int]]
    sources: list[Source]

    @property
    def num_unknown(self) -> int:
        """Tokens that become <unk>."""
        return self.num_unwritable + self.num_left_out

    @property
    def unknown_rate(self) -> float:
        """The unknown among all tokens."""
        return self.num_unknown / self.num_tokens


def sentences(
    texts: Sequence[str],
    form: lm_text.TextForm,
    encoding: str,
    sources: list[Source] | None = None,
    progress: bool = True,
) -> Iterator[str]:
    """Yields the lines of texts in the alphabet's form, without empty ones.

    Args:
      texts: paths, or "-" for standard input.
      form: what brings them into that form.
      encoding: of all of them.
      sources: gets an entry for each.
      progress: whether to show a bar.

    Raises:
      UserError: as `lm_corpus.lines`.
    """
    size = lm_corpus.num_bytes(texts)
    with tqdm.tqdm(
        total=size, unit="B", unit_scale=True, desc="text", disable=not progress
    ) as progress_bar:
        for path in texts:
            name = "standard input" if path == lm_corpus.STANDARD_INPUT else os.fspath(path)
            source = Source(name)
            for line in lm_corpus.lines(path, encoding, source, progress_bar.update):
                if text := form(line):
                    yield text
            if sources is not None:
                sources.append(source)


def write(
    path: pathlib.Path,
    texts: Sequence[str],
    form: lm_text.TextForm,
    unit: str,
    *,
    encoding: str = "utf-8",
    limit: int = 0,
    progress: bool = True,
) -> Coverage:
    """Writes the texts' tokens, one sentence a line; what is unknown becomes `STAND_IN`.

    Args:
      path: the file to write.
      texts: paths, or "-" for standard input.
      form: brings them into the alphabet's form.
      unit: what a token is.
      encoding: of the texts.
      limit: how many of the most frequent tokens are known, 0 for all.
      progress: whether to show a bar.

    Raises:
      UserError: when the texts cannot be read or hold no token that the alphabet can write.
    """
    counts: collections.Counter[str] = collections.Counter()
    sources: list[Source] = []
    num_sentences = 0
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for text in sentences(texts, form, encoding, sources, progress):
            if tokens := lm_text.tokens(text, unit, form.alphabet.spaced):
                num_sentences += 1
                counts.update(tokens)
                file.write(" ".join(tokens) + "\n")
    unwritable = [token for token in counts if token in _SPECIAL or not form.writes(token)]
    outside: collections.Counter[str] = collections.Counter()
    for token in unwritable:
        for character in form.outside(token):
            outside[character] += counts[token]
    num_tokens = counts.total()
    num_unwritable = sum(counts.pop(token) for token in unwritable)
    if not counts:
        names = ", ".join(source.name for source in sources)
        raise UserError(f"{names}: holds no text in the alphabet's characters; check both")
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    kept, left_out = (ordered[:limit], ordered[limit:]) if limit else (ordered, [])
    if unwritable or left_out:
        _replace(path, {token for token, _ in kept})
    return Coverage(
        num_sentences,
        num_tokens,
        len(counts),
        len(kept),
        num_unwritable,
        sum(count for _, count in left_out),
        outside.most_common(),
        left_out[:_SHOWN],
        sources,
    )


def _replace(path: pathlib.Path, known: Collection[str]) -> None:
    """Writes the file anew with `STAND_IN` for the tokens that are not known."""
    target = path.with_suffix(".known")
    with (
        open(path, encoding="utf-8", newline="\n") as file,
        open(target, "w", encoding="utf-8", newline="\n") as replaced,
    ):
        replaced.writelines(_known_lines(file, known))
    os.replace(target, path)


def _known_lines(lines: Iterable[str], known: Collection[str]) -> Iterator[str]:
    for line in lines:
        # By the space alone: `split()` would take other white space too.
        tokens = (token if token in known else STAND_IN for token in line[:-1].split(" "))
        yield " ".join(tokens) + "\n"
