"""Word and character error rates of a corpus.

A rate is all edits of the corpus over all its reference units: never a mean of the rates of single
utterances, and never capped at 1.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence

from rapidfuzz.distance import Levenshtein


@dataclasses.dataclass(frozen=True)
class ErrorCounts:
    """The edits that turn references into hypotheses, counted in units (words or characters).

    Their sum is the edit distance and thus unique. How it divides into the three kinds is that of
    one shortest alignment, always the same one.
    """

    substitutions: int = 0
    insertions: int = 0
    deletions: int = 0
    reference_units: int = 0

    @property
    def edits(self) -> int:
        """All edits: the edit distance."""
        return self.substitutions + self.insertions + self.deletions

    @property
    def rate(self) -> float:
        """Edits over reference units; without reference units 0 if there are no edits, else inf."""
        if self.reference_units:
            return self.edits / self.reference_units
        return math.inf if self.edits else 0.0

    def __add__(self, other: "ErrorCounts") -> "ErrorCounts":
        return ErrorCounts(
            self.substitutions + other.substitutions,
            self.insertions + other.insertions,
            self.deletions + other.deletions,
            self.reference_units + other.reference_units,
        )


def word_errors(reference: str, hypothesis: str) -> ErrorCounts:
    """Returns the edits between the words of two texts; words are what white space separates."""
    return _count(reference.split(), hypothesis.split())


def character_errors(reference: str, hypothesis: str, count_spaces: bool = True) -> ErrorCounts:
    """Returns the edits between the characters (Unicode code points) of two texts.

    Args:
      reference: what was said. Normalise both texts alike (`Alphabet.normalize`) beforehand.
      hypothesis: what was recognised.
      count_spaces: whether the single space between two words is a character. True for languages
        that separate words by spaces; False for those that do not, such as Mandarin. More than one
        space, and spaces at the ends, never count.
    """
    between = " " if count_spaces else ""
    return _count(between.join(reference.split()), between.join(hypothesis.split()))


def total(counts: Iterable[ErrorCounts]) -> ErrorCounts:
    """Returns the counts of a corpus from those of its utterances."""
    return sum(counts, start=ErrorCounts())


def alignment(
    reference: Sequence[str], hypothesis: Sequence[str]
) -> list[tuple[str | None, str | None]]:
    """Pairs the units of a reference and a hypothesis along the alignment that is counted above.

    Returns:
      (reference unit, hypothesis unit) in order. The first is None for an insertion, the second for
      a deletion.
    """
    pairs: list[tuple[str | None, str | None]] = []
    for step in Levenshtein.opcodes(reference, hypothesis):
        of_reference: Sequence[str | None] = reference[step.src_start : step.src_end]
        of_hypothesis: Sequence[str | None] = hypothesis[step.dest_start : step.dest_end]
        if step.tag == "insert":
            of_reference = [None] * len(of_hypothesis)
        elif step.tag == "delete":
            of_hypothesis = [None] * len(of_reference)
        pairs.extend(zip(of_reference, of_hypothesis, strict=True))
    return pairs


def _count(reference: Sequence[str], hypothesis: Sequence[str]) -> ErrorCounts:
    kinds = [step.tag for step in Levenshtein.editops(reference, hypothesis)]
    return ErrorCounts(
        kinds.count("replace"), kinds.count("insert"), kinds.count("delete"), len(reference)
    )
