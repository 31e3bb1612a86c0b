"""Text to labels and back: the sole owner of the blank's index.

A symbol is a character or, in alphabets of kind "bigram", also a pair of them: half as many labels,
so that the model may stride further (Deep Speech 2, section 3.5).
"""

import collections
import dataclasses
import difflib
import json
import os
import re
import unicodedata
from collections.abc import Iterable
from typing import Any

from ds2_tf import atomic
from ds2_tf.errors import UserError

BLANK = 0

UNKNOWN = "\ufffd"
"""The symbol U+FFFD, by which an alphabet that holds it writes the characters that it lacks."""

CASES = ("lower", "upper", "keep")
KINDS = ("character", "bigram")
UNSPACED_LANGUAGES = ("zh", "cmn", "yue", "ja", "th", "lo", "km", "my")
"""Written without spaces between words: Chinese, Japanese, Thai, Lao, Khmer, Burmese."""

_PIECE = {"character": re.compile("."), "bigram": re.compile(" |[^ ]{1,2}")}
_SYMBOL_LENGTHS = {"character": (1,), "bigram": (1, 2)}
_FORMAT_VERSION = 1
_BYTE_ORDER_MARK = "\ufeff"
_KEYS = ("format_version", "kind", "case", "unicode", "language", "symbols")


@dataclasses.dataclass(frozen=True)
class Alphabet:
    """The symbols that a model writes, in the order of its outputs.

    Label 0 is CTC's blank; `symbols[i]` has label i + 1.

    Attributes:
      symbols: one character each, a single code point after NFC; the space is a symbol like others.
        Of kind "bigram" also pairs of the single characters, but none with a space.
      case: "lower" or "upper" to convert every text, "keep" to leave it.
      language: a tag such as "en", "zh" or "zh-TW".
      kind: "character", or "bigram" to cut words into pairs.

    Raises:
      ValueError: for a symbol that occurs twice or that no normalised text can contain, a pair
        whose characters are no symbols, or another value of `case` or `kind`.
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
            if len(symbol) not in _SYMBOL_LENGTHS[self.kind]:
                lengths = "one character" if self.kind == "character" else "one or two characters"
                raise ValueError(f"a symbol must be {lengths}. Received: {symbol!r}")
            if symbol != " " and self.normalize(symbol) != symbol:
                raise ValueError(
                    f"symbol {_describe(symbol)} never occurs in text normalised with case "
                    f"{self.case!r}: it becomes {self.normalize(symbol)!r}"
                )
        repeated = [symbol for symbol, n in collections.Counter(symbols).items() if n > 1]
        if repeated:
            raise ValueError(f"symbols must differ. Repeated: {', '.join(map(repr, repeated))}")
        labels = {symbol: label for label, symbol in enumerate(symbols, start=BLANK + 1)}
        for symbol in symbols:
            missing = [character for character in symbol if character not in labels]
            if missing:
                raise ValueError(
                    f"the characters of a pair must be symbols too. Of {symbol!r} is missing: "
                    f"{missing[0]!r}"
                )
        object.__setattr__(self, "_labels", labels)

    @property
    def num_labels(self) -> int:
        """V: the number of symbols and the blank."""
        return len(self.symbols) + 1

    @property
    def writes_unknown(self) -> bool:
        """Whether characters outside the alphabet are written as the symbol U+FFFD."""
        return UNKNOWN in self._labels

    @property
    def spaced(self) -> bool:
        """Whether spaces separate the words: it holds the space, and the language uses it so.

        In Mandarin the space stands at most around Roman words; the error rates don't count it.
        """
        primary = re.split("[-_]", self.language.lower())[0]
        return " " in self._labels and primary not in UNSPACED_LANGUAGES

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
        """Returns how often each character outside the alphabet occurs in the normalised text.

        U+FFFD, what programs leave of a damaged character, is one of them always.
        """
        return collections.Counter(
            c for c in self.normalize(text) if c not in self._labels or c == UNKNOWN
        )

    def encode(self, text: str) -> list[int]:
        """Returns the labels [U] of the normalised text, each in [1, V).

        Of kind "bigram" a word is cut into pairs from the left, and an odd last character stands
        alone, as does the space. A pair that the alphabet lacks is written as two characters.
        Characters outside the alphabet become U+FFFD where the alphabet holds that symbol.

        Raises:
          ValueError: naming every character that the alphabet lacks, with its count.
        """
        unknown = self._labels.get(UNKNOWN)
        labels = []
        for piece in _PIECE[self.kind].findall(self.normalize(text)):
            symbols = (piece,) if piece in self._labels else piece
            for symbol in symbols:
                label = self._labels.get(symbol, unknown)
                if label is None:
                    characters = sorted(self.unknown_characters(text).items())
                    listed = ", ".join(f"{_describe(c)} x{n}" for c, n in characters)
                    raise ValueError(f"characters outside the alphabet: {listed}")
                labels.append(label)
        return labels

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


def from_transcripts(
    texts: Iterable[str],
    case: str = "lower",
    language: str = "en",
    kind: str = "character",
    coverage: float = 1.0,
) -> Alphabet:
    """Returns the alphabet of what occurs in the texts: characters in code point order, then pairs.

    Args:
      texts: the training transcripts.
      case: as in `Alphabet`.
      language: as in `Alphabet`.
      kind: "bigram" to add the pairs that occur.
      coverage: below 1, only the most frequent characters are kept that together make up this share
        of all, of equally frequent ones the first by code point; the space is always kept. U+FFFD
        stands for the others. Deep Speech 2 left 0.74 % out in Mandarin.

    Raises:
      UserError: when the texts hold no character at all.
      ValueError: for a coverage outside (0, 1], or another value of `case` or `kind`.
    """
    if not 0 < coverage <= 1:
        raise ValueError(f"coverage must lie in (0, 1]. Received: {coverage}")
    texts = list(texts)
    normalize = Alphabet((" ",), case, language, kind).normalize
    counts = collections.Counter(character for text in texts for character in normalize(text))
    kept = _most_frequent(counts, coverage)
    if not kept:
        raise UserError("the transcripts hold no characters; check the manifest's field 'text'")
    if coverage < 1:
        kept.add(UNKNOWN)
    characters = Alphabet(tuple(sorted(kept)), case, language)
    return with_pairs(characters, texts) if kind == "bigram" else characters


def with_pairs(characters: Alphabet, texts: Iterable[str]) -> Alphabet:
    """Returns the alphabet of kind "bigram" that adds the texts' pairs, sorted, to characters.

    A pair with a character outside the alphabet is none.

    Source: Deep Speech 2, section 3.5.
    """
    cut = _PIECE["bigram"].findall
    pieces = {piece for text in texts for piece in cut(characters.normalize(text))}
    known = set(characters.symbols) - {UNKNOWN}
    pairs = sorted(piece for piece in pieces if len(piece) == 2 and known.issuperset(piece))
    return dataclasses.replace(characters, symbols=(*characters.symbols, *pairs), kind="bigram")


def _most_frequent(counts: collections.Counter[str], coverage: float) -> set[str]:
    """Returns the characters to keep, never U+FFFD, which damaged text holds."""
    total = counts.total()
    kept = {" "} & set(counts)
    covered = sum(counts[character] for character in kept)
    for character, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if covered / total >= coverage:
            break
        if character not in kept and character != UNKNOWN:
            kept.add(character)
            covered += count
    return kept


def _describe(symbol: str) -> str:
    """Names a symbol so that look-alikes and invisible ones can be told apart."""
    shown = "".join(c if c.isprintable() else "\\u" + format(ord(c), "04x") for c in symbol)
    if symbol.isascii() and symbol.isprintable():
        return f"'{shown}'"
    return f"'{shown}' ({' '.join(f'U+{ord(c):04X}' for c in symbol)})"


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
