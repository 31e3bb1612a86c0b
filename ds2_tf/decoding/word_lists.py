"""Words that users give a beam search: hot ones with boosts, the only ones that are allowed."""

import math
import os
from collections.abc import Iterator

from ds2_tf.alphabet import Alphabet
from ds2_tf.errors import UserError

_FILE_MARK = "@"


def hot_words(text: str, alphabet: Alphabet) -> dict[str, float]:
    """Returns phrases and their boosts in nats.

    Args:
      text: "name:5,new york:3", or "@FILE" of a file with a phrase a line.
      alphabet: of the normalised phrases.

    Raises:
      UserError: naming what cannot be read, or the characters that the alphabet lacks.
    """
    if text.startswith(_FILE_MARK):
        items = _lines(text[len(_FILE_MARK) :], "hot words")
    else:
        items = (("hot words", item) for item in text.split(",") if item.strip())
    found: dict[str, float] = {}
    for where, item in items:
        phrase, colon, number = item.rpartition(":")
        try:
            boost = float(number) if colon else math.nan
        except ValueError:
            boost = math.nan
        if colon and not phrase.strip():
            raise UserError(f"{where}: there is no phrase before {item.strip()!r}; write one")
        if not math.isfinite(boost):
            raise UserError(
                f"{where}: {item.strip()!r} has no boost; write the phrase, a colon and a number, "
                "as in 'new york:3'"
            )
        phrase = _checked(phrase, alphabet, where)
        if phrase in found:
            raise UserError(f"{where}: {phrase!r} occurs twice; give it one boost")
        found[phrase] = boost
    return found


def allowed_words(path: str | os.PathLike, alphabet: Alphabet) -> list[str]:
    """Returns the normalised words of a file, which white space and line ends separate.

    Raises:
      UserError: when the file cannot be read or holds no word, or naming the line of a word with
        characters that the alphabet lacks.
    """
    path = os.fspath(path)
    words = {
        _checked(word, alphabet, where): None
        for where, line in _lines(path, "allowed words")
        for word in line.split()
    }
    if not words:
        raise UserError(f"{path}: holds no word; write a word on each line")
    return list(words)


def _lines(path: str, what: str) -> Iterator[tuple[str, str]]:
    """Yields the lines that are not blank, and where each stands."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield f"{path}:{number}", line
    except FileNotFoundError as error:
        raise UserError(f"{path}: there is no such file; name a file of {what}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8; save it as UTF-8") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); name a file") from error


def _checked(phrase: str, alphabet: Alphabet, where: str) -> str:
    normalized = alphabet.normalize(phrase)
    if not normalized:
        raise UserError(f"{where}: {phrase!r} holds no word; leave it out")
    try:
        alphabet.encode(normalized)
    except ValueError as error:
        raise UserError(
            f"{where}: {normalized!r} has {error}; leave it out or spell it otherwise"
        ) from error
    return normalized
