"""The flags --alphabet and --workdir of programs that need a model's alphabet, not the model."""

import pathlib
from typing import TYPE_CHECKING

from absl import flags

from ds2_tf.bin import program

if TYPE_CHECKING:
    from ds2_tf.alphabet import Alphabet

_ALPHABET = flags.DEFINE_string(
    "alphabet", None, "An alphabet.json, or 'english': space, apostrophe, a to z."
)
_WORKDIR = flags.DEFINE_string("workdir", None, "A trained model, whose alphabet is taken.")


def read() -> "Alphabet | None":
    """Returns the alphabet that the flags name, None when neither is given."""
    from ds2_tf import alphabet

    if _ALPHABET.value and _WORKDIR.value:
        raise program.UsageError("--alphabet and --workdir exclude each other")
    if _WORKDIR.value:
        return alphabet.Alphabet.load(pathlib.Path(_WORKDIR.value, "alphabet.json"))
    if _ALPHABET.value == "english":
        return alphabet.english()
    return alphabet.Alphabet.load(_ALPHABET.value) if _ALPHABET.value else None


def read_required() -> "Alphabet":
    """Returns the alphabet that the flags name."""
    if (found := read()) is None:
        raise program.UsageError("--alphabet or --workdir is missing")
    return found
