"""An alphabet from a file that lists its characters, as for Mandarin's thousands."""

import os
import pathlib
import unicodedata

from ds2_tf.alphabet import Alphabet
from ds2_tf.errors import UserError


def read(path: str | os.PathLike, case: str = "lower", language: str = "en") -> Alphabet:
    """Returns the alphabet of a file: a text file with a character a line, or an alphabet.json.

    The text is UTF-8. A byte-order mark, line ends of any system and blank lines are no characters;
    a line that holds a space alone is the space. Characters are composed (NFC). There are no
    comments: '#' is a character.

    Args:
      path: read as JSON when it ends in ".json".
      case: as in `Alphabet`. An alphabet.json must have the same.
      language: likewise.

    Raises:
      UserError: naming the file and the line, for a line of several characters, one that repeats an
        earlier line, or a character that no text of this case holds; for a file that cannot be
        read; for an alphabet.json of another case or language.
      ValueError: for another value of `case`.
    """
    path = pathlib.Path(path)
    if path.suffix.lower() == ".json":
        return _read_json(path, case, language)
    Alphabet((" ",), case, language)
    lines: dict[str, int] = {}
    for number, line in enumerate(_read_text(path).split("\n"), start=1):
        if not line:
            continue
        character = unicodedata.normalize("NFC", line)
        if len(character) > 1:
            raise UserError(
                f"{path}:{number}: holds {len(character)} characters, {line!r}; write one "
                "character a line"
            )
        try:
            Alphabet((character,), case, language)
        except ValueError as error:
            raise UserError(
                f"{path}:{number}: {error}; remove the line, or change alphabet.case"
            ) from error
        first = lines.setdefault(character, number)
        if first != number:
            raise UserError(
                f"{path}:{number}: {character!r} stands on line {first} already; remove one of them"
            )
    if not lines:
        raise UserError(f"{path}: holds no characters; write one character a line")
    return Alphabet(tuple(lines), case, language)


def _read_json(path: pathlib.Path, case: str, language: str) -> Alphabet:
    alphabet = Alphabet.load(path)
    for name, wanted in (("case", case), ("language", language)):
        found = getattr(alphabet, name)
        if found != wanted:
            raise UserError(
                f"{path}: has {name} {found!r}, the config {wanted!r}; set alphabet.{name} to "
                f"{found!r}"
            )
    return alphabet


def _read_text(path: pathlib.Path) -> str:
    """Returns the text with line ends of any system as line feeds."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror}); name a text file with a character a line, "
            "or an alphabet.json"
        ) from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UserError(f"{path}:{line}: is not UTF-8; save the file as UTF-8") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")
