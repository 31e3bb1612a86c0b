"""What is known of a language model beside its file: the JSON of the same name."""

import dataclasses
import hashlib
import json
import os
import pathlib
from typing import Any

from ds2_tf import atomic
from ds2_tf.alphabet import CASES, Alphabet
from ds2_tf.decoding import lm_text
from ds2_tf.errors import UserError

_FORMAT_VERSION = 1


@dataclasses.dataclass(frozen=True)
class LanguageModelInfo:
    """What a language model is made of.

    Attributes:
      unit: what its tokens are: "word", "character" or "mixed" (`lm_text`).
      order: the longest n-grams.
      vocabulary_size: its tokens, without <unk>, <s> and </s>.
      case: of its text, as `Alphabet.case`; "" when unknown.
      unicode: the form of its text, "NFC"; "" when unknown.
      language: a tag, "" when unknown.
      characters: those of the alphabet that its text was brought into; "" when unknown.
      sha256: of the model's file, "" when unknown.
      build: how it was made: options, texts with their checksums, coverage. For readers.
    """

    unit: str
    order: int
    vocabulary_size: int
    case: str = ""
    unicode: str = ""
    language: str = ""
    characters: str = ""
    sha256: str = ""
    build: dict[str, Any] = dataclasses.field(default_factory=dict)

    def alphabet(self) -> Alphabet | None:
        """Returns the alphabet of its text, None when unknown; of kind "character" always."""
        if not self.characters:
            return None
        return Alphabet(tuple(self.characters), self.case, self.language)

    def save(self, model: str | os.PathLike) -> None:
        """Writes the JSON beside a model's file."""
        content = {"format_version": _FORMAT_VERSION, **dataclasses.asdict(self)}
        with atomic.open_for_write(path_beside(model)) as file:
            json.dump(content, file, ensure_ascii=False, indent=1)
            file.write("\n")


def path_beside(model: str | os.PathLike) -> pathlib.Path:
    """Returns the JSON's path: the model's with ".json" appended."""
    return pathlib.Path(os.fspath(model) + ".json")


def load(model: str | os.PathLike) -> LanguageModelInfo | None:
    """Returns what is known of a model, None when it has no JSON.

    Raises:
      UserError: when the JSON is damaged or of another format version.
    """
    path = path_beside(model)
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); make it readable") from error
    except ValueError as error:
        raise UserError(f"{path}: is not JSON ({error}); build the language model again") from error
    if not isinstance(content, dict) or content.pop("format_version", None) != _FORMAT_VERSION:
        raise UserError(
            f"{path}: is not of format_version {_FORMAT_VERSION}; build the language model again "
            "with tools.build_lm"
        )
    try:
        info = LanguageModelInfo(**content)
    except TypeError as error:
        raise UserError(
            f"{path}: lacks a field or has one too many ({str(error).partition(') ')[2]}); build "
            "the language model again"
        ) from error
    if info.unit not in lm_text.UNITS or info.case not in ("", *CASES):
        raise UserError(
            f"{path}: unit {info.unit!r} or case {info.case!r} is unknown; build the language "
            "model again"
        )
    return info


def checksum(path: str | os.PathLike) -> str:
    """Returns the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
