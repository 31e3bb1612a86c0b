"""ARPA files, the text form of n-gram models: the tokens outside the vocabulary become <unk>."""

import math
import re
from collections.abc import Iterable, Iterator

UNKNOWN = "<unk>"

STAND_IN = "\u3000"
"""Stands for unknown tokens in text, where KenLM allows no <unk>; white space, so never a token."""

_COUNT = re.compile(r"ngram (\d+)=(\d+)")
_SECTION = re.compile(r"\\(\d+)-grams:")


def with_unknown(lines: Iterable[str]) -> Iterator[str]:
    r"""Yields the lines of an ARPA file in which `STAND_IN` is called <unk>.

    The two unigrams become one, whose probability is their sum.

    Args:
      lines: of a file that `lmplz` wrote of text with `STAND_IN`, each with its "\n".
    """
    section = 0
    unigrams: list[tuple[float, str]] = []
    for line in lines:
        if (count := _COUNT.match(line)) and count[1] == "1":
            yield f"ngram 1={int(count[2]) - 1}\n"
            continue
        if heading := _SECTION.match(line):
            section = int(heading[1])
        if section == 1 and (fields := line.rstrip("\n").split("\t"))[1:2] in (
            [UNKNOWN],
            [STAND_IN],
        ):
            backoff = fields[2] if len(fields) > 2 else "0"
            # Only the stand-in begins longer n-grams.
            unigrams.append((float(fields[0]), backoff if fields[1] == STAND_IN else ""))
            if len(unigrams) == 2:
                total = math.log10(sum(10**log_probability for log_probability, _ in unigrams))
                backoff = "".join(backoff for _, backoff in unigrams)
                yield f"{total:.7g}\t{UNKNOWN}\t{backoff}\n"
            continue
        yield line.replace(STAND_IN, UNKNOWN)


def counts(lines: Iterable[str]) -> list[int]:
    """Returns how many n-grams of each order the header of an ARPA file states."""
    found = []
    for line in lines:
        if count := _COUNT.match(line):
            found.append(int(count[2]))
        elif found:
            break
    return found
