"""Text to labels and back: the sole owner of the blank's index."""

import collections
import dataclasses
import difflib
import json
import os
import unicodedata
from collections.abc import Iterable
from typing import Any

from ds2_tf import atomic
from ds2_tf.errors import UserError

BLANK = 0

CASES = ("lower", "upper", "keep")
KINDS = ("character",)
_FORMAT_VERSION = 1
_BYTE_ORDER_MARK = "\ufeff"
_KEYS = ("format_version", "kind", "case", "unicode", "language", "symbols")


@dataclasses.dataclass(frozen=True)
class Alphabet:
    """The symbols that a model writes, in the order of its outputs.

    Label 0 is CTC's blank; `symbols[i]` has label i + 1.

    Attributes:
      symbols: one character each, a single code point after NFC; the space is a symbol like others.
      case: "lower" or "upper" to convert every text, "keep" to leave it.
      language: a tag such as "en" or "zh".
      kind: "character", the only kind so far.

    Raises:
      ValueError: for a symbol that occurs twice or that no normalised text can contain, or for
        another value of `case` or `kind`.
    """

    symbols: tuple[str, ...]
    case: str = "lower"
    language: str = "en"
    kind: str = "character"
    _labels: dict[str, int] = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.case not in CASES:
            raise ValueError(f"case must be one of {', '.join(CASES)}. Received: {self.case!r}")
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}. Received: {self.kind!r}")
        symbols = tuple(unicodedata.normalize("NFC", symbol) for symbol in self.symbols)
        object.__setattr__(self, "symbols", symbols)
        if not symbols:
            raise ValueError("symbols must name at least one character. Received: none")
        for symbol in symbols:
            if len(symbol) != 1:
                raise ValueError(f"a symbol must be one character. Received: {symbol!r}")
            if symbol != " " and self.normalize(symbol) != symbol:
                raise ValueError(
                    f"symbol {_describe(symbol)} never occurs in text normalised with case "
                    f"{self.case!r}: it becomes {self.normalize(symbol)!r}"
                )
        repeated = [symbol for symbol, n in collections.Counter(symbols).items() if n > 1]
        if repeated:
            raise ValueError(f"symbols must differ. Repeated: {', '.join(map(repr, repeated))}")
        labels = {symbol: label for label, symbol in enumerate(symbols, start=BLANK + 1)}
        object.__setattr__(self, "_labels", labels)

    @property
    def num_labels(self) -> int:
        """V: the number of symbols and the blank."""
        return len(self.symbols) + 1

    def normalize(self, text: str) -> str:
        """Returns the text in the form that labels stand for.

        Unicode is composed (NFC), byte-order marks vanish, any run of white space (line ends of
        every system, tabs, no-break spaces) becomes one space, none at either end; then the case.
        """
        text = unicodedata.normalize("NFC", text.replace(_BYTE_ORDER_MARK, ""))
        if self.case != "keep":
            text = text.lower() if self.case == "lower" else text.upper()
            text = unicodedata.normalize("NFC", text)
        return " ".join(text.split())

    def unknown_characters(self, text: str) -> collections.Counter[str]:
        """Returns how often each character outside the alphabet occurs in the normalised text."""
        return collections.Counter(c for c in self.normalize(text) if c not in self._labels)

    def encode(self, text: str) -> list[int]:
        """Returns the labels [U] of the normalised text, each in [1, V).

        Raises:
          ValueError: naming every character that the alphabet lacks, with its count.
        """
        unknown = self.unknown_characters(text)
        if unknown:
            listed = ", ".join(f"{_describe(c)} x{n}" for c, n in sorted(unknown.items()))
            raise ValueError(f"characters outside the alphabet: {listed}")
        return [self._labels[character] for character in self.normalize(text)]

    def decode(self, labels: Iterable[int]) -> str:
        """Returns the text of labels [U]; nothing is collapsed or left out.

        Raises:
          ValueError: for the blank or a label outside [1, V).
        """
        characters = []
        for label in labels:
            if not BLANK < label < self.num_labels:
                raise ValueError(f"labels must lie in [1, {self.num_labels}). Received: {label}")
            characters.append(self.symbols[label - 1])
        return "".join(characters)

    def save(self, path: str | os.PathLike) -> None:
        """Writes alphabet.json, whole or not at all; `load` reads it."""
        content = {
            "format_version": _FORMAT_VERSION,
            "kind": self.kind,
            "case": self.case,
            "unicode": "NFC",
            "language": self.language,
            "symbols": list(self.symbols),
        }
        with atomic.open_for_write(path, "w") as file:
            json.dump(content, file, ensure_ascii=False, indent=1)
            file.write("\n")

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Alphabet":
        """Reads what `save` wrote, or a file edited by hand.

        Raises:
          UserError: when the file is missing, no alphabet, or of another format version.
        """
        content = _read_json(path)
        _check_keys(path, content)
        symbols, texts = content["symbols"], (content["case"], content["kind"], content["language"])
        if not isinstance(symbols, list) or not all(isinstance(s, str) for s in (*symbols, *texts)):
            raise UserError(
                f"{os.fspath(path)}: symbols must be a list of characters, and case, kind and "
                "language text; correct the file"
            )
        try:
            return cls(tuple(symbols), texts[0], texts[2], texts[1])
        except ValueError as error:
            raise UserError(f"{os.fspath(path)}: {error}; correct the file") from error


def english() -> Alphabet:
    """Returns the English alphabet: space, apostrophe, a to z (V = 29 with the blank)."""
    return Alphabet((" ", "'", *"abcdefghijklmnopqrstuvwxyz"))


def from_transcripts(texts: Iterable[str], case: str = "lower", language: str = "en") -> Alphabet:
    """Returns the alphabet of the characters that occur in the texts, in code point order.

    Raises:
      UserError: when the texts hold no character at all.
    """
    normalize = Alphabet((" ",), case).normalize
    found = {character for text in texts for character in normalize(text)}
    if not found:
        raise UserError("the transcripts hold no characters; check the manifest's field 'text'")
    return Alphabet(tuple(sorted(found)), case, language)


def _describe(character: str) -> str:
    """Names a character so that look-alikes and invisible ones can be told apart."""
    shown = character if character.isprintable() else "\\u" + format(ord(character), "04x")
    plain = character.isascii() and character.isprintable()
    return f"'{shown}'" if plain else f"'{shown}' (U+{ord(character):04X})"


def _read_json(path: str | os.PathLike) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8-sig") as file:
            content = json.load(file)
    except OSError as error:
        raise UserError(
            f"{os.fspath(path)}: cannot be read ({error.strerror}); name the alphabet.json of a "
            "trained model's folder"
        ) from error
    except ValueError as error:
        raise UserError(f"{os.fspath(path)}: is not JSON ({error}); restore the file") from error
    if not isinstance(content, dict):
        raise UserError(f"{os.fspath(path)}: is not an alphabet; restore the file")
    return content


def _check_keys(path: str | os.PathLike, content: dict[str, Any]) -> None:
    path = os.fspath(path)
    version = content.get("format_version")
    if version != _FORMAT_VERSION:
        raise UserError(
            f"{path}: format_version is {version!r}, this program reads {_FORMAT_VERSION}; "
            "use the version of ds2_tf that wrote the file"
        )
    unknown = [key for key in content if key not in _KEYS]
    for key in unknown:
        near = difflib.get_close_matches(key, _KEYS, n=1)
        hint = f", did you mean {near[0]!r}?" if near else ""
        raise UserError(f"{path}: unknown key {key!r}{hint}; correct the file")
    missing = [key for key in _KEYS if key not in content]
    if missing:
        raise UserError(f"{path}: lacks {', '.join(map(repr, missing))}; restore the file")
    if content["unicode"] != "NFC":
        raise UserError(f"{path}: unicode must be 'NFC', not {content['unicode']!r}; correct it")
