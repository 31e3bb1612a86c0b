"""The text of language models: its tokens, and the form in which text of other kinds enters.

A unit says what the tokens of a text are:

* "word": what stands between spaces;
* "character": every character; where spaces separate words, the space is the token U+2581, in
  scripts without such spaces it is none;
* "mixed": ideographs, and the letters of other scripts that are written without spaces, are tokens
  of their own, all else is words, which end at a space, an ideograph or the end.
"""

import functools
import re
import unicodedata

from ds2_tf.alphabet import UNKNOWN, Alphabet

UNITS = ("word", "character", "mixed")

SPACE = "\u2581"
"""The token that stands for the space in models of characters."""

_APOSTROPHES = re.compile(r"(?<=\w)[\u2018\u2019\u02bc\uff07](?=\w)")
_IDEOGRAPHS = (
    "\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3038-\u303b"  # Han: radicals, marks, numerals
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"  # Han
    "\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001b000-\U0001b16f"  # kana
    "\u3105-\u312f\u31a0-\u31bf"  # bopomofo
    "\u0e01-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Burmese
    "\u1780-\u17ff\u19e0-\u19ff"  # Khmer
)
_IDEOGRAPH = re.compile(f"[{_IDEOGRAPHS}]")
_MIXED = re.compile(rf"[{_IDEOGRAPHS}]|[^{_IDEOGRAPHS}\s]+")


def default_unit(alphabet: Alphabet) -> str:
    """Returns "word" where spaces separate the words, else "character"."""
    return "word" if alphabet.spaced else "character"


def is_ideograph(character: str) -> bool:
    """Whether a character is a token of its own in the unit "mixed"."""
    return bool(_IDEOGRAPH.match(character))


def tokens(text: str, unit: str, spaced: bool) -> list[str]:
    """Returns the tokens of a normalised text.

    Args:
      text: as `Alphabet.normalize` returns it.
      unit: one of `UNITS`.
      spaced: whether spaces separate the words (`Alphabet.spaced`).

    Raises:
      ValueError: for another unit.
    """
    if unit == "word":
        return text.split()
    if unit == "character":
        return list(text.replace(" ", SPACE if spaced else ""))
    if unit == "mixed":
        return _MIXED.findall(text)
    raise ValueError(f"unit must be one of {', '.join(UNITS)}. Received: {unit!r}")


class TextForm:
    """Brings text into the form of an alphabet's transcripts.

    First as transcripts are (`Alphabet.normalize`). Then, unless punctuation is kept, what the
    alphabet lacks: a typographic apostrophe within a word becomes the plain one, if the alphabet
    has that, other punctuation and symbols become spaces. Letters and digits outside the alphabet
    stay: `writes` tells which tokens hold some. If the alphabet writes U+FFFD for them, so does
    this.
    """

    def __init__(self, alphabet: Alphabet, keep_punctuation: bool = False):
        self.alphabet = alphabet
        self._keep_punctuation = keep_punctuation
        self._characters = frozenset("".join(alphabet.symbols))
        self._has_apostrophe = "'" in self._characters
        self._replacements = _Replacements(self._characters, keep_punctuation)

    def __call__(self, text: str) -> str:
        """Returns the text in the alphabet's form; without a rest it is ""."""
        text = self.alphabet.normalize(text)
        if self._characters.issuperset(text):
            return text
        if self._has_apostrophe and not self._keep_punctuation:
            text = _APOSTROPHES.sub("'", text)
        return " ".join(text.translate(self._replacements).split())

    def outside(self, text: str) -> list[str]:
        """Returns the characters of a text that the alphabet lacks, each as often as it occurs."""
        return [c for c in text if c not in self._characters and not c.isspace()]

    @functools.cached_property
    def writable(self) -> frozenset[str]:
        """The characters that tokens may be made of."""
        return self._characters | {SPACE}

    def writes(self, token: str) -> bool:
        """Whether the alphabet has all characters of a token."""
        return self.writable.issuperset(token)


class _Replacements(dict):
    """What becomes of each character: code point -> text or code point; filled as they come."""

    def __init__(self, characters: frozenset[str], keep_punctuation: bool):
        super().__init__()
        self._characters = characters
        self._keep_punctuation = keep_punctuation

    def __missing__(self, code_point: int) -> str:
        character = chr(code_point)
        replacement = character
        if character not in self._characters and character != " ":
            if not self._keep_punctuation and unicodedata.category(character)[0] in "PSCZ":
                replacement = " "
            elif UNKNOWN in self._characters:
                replacement = UNKNOWN
        self[code_point] = replacement
        return replacement
