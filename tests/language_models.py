"""The small language model that tests use, and what some of them need that may be missing."""

import functools
import math
import pathlib

import pytest

from ds2_tf.errors import UserError
from ds2_tf.native import compiling, kenlm

FOLDER = pathlib.Path(__file__).parent / "data" / "language_model"
TEXT = FOLDER / "rooms.txt"
ARPA = FOLDER / "rooms.arpa"
BINARY = FOLDER / "rooms.binary"
QUANTIZED = FOLDER / "rooms_q8.binary"


def require_library():
    """Skips a test where KenLM's library cannot be compiled."""
    if reason := _missing("library"):
        pytest.skip(reason)


def require_programs():
    """Skips a test where lmplz and build_binary are not there and cannot be compiled."""
    require_library()
    if reason := _missing("lmplz") or _missing("build_binary"):
        pytest.skip(reason)


@functools.cache
def _missing(name):
    try:
        if name == "library":
            kenlm.library()
        else:
            kenlm.program(name)
    except (UserError, compiling.BuildError) as error:
        return str(error)
    return ""


class ArpaModel:
    """Scores by the definition of back-off models, from the text of an ARPA file."""

    def __init__(self, path):
        self.order = 0
        self.entries = {}
        for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
            fields = line.split("\t")
            if len(fields) < 2:
                continue
            ngram = tuple(fields[1].split(" "))
            backoff = float(fields[2]) if len(fields) > 2 else 0.0
            self.entries[ngram] = float(fields[0]), backoff
            self.order = max(self.order, len(ngram))

    def score(self, context, token):
        """ln p(token | context)."""
        if (token,) not in self.entries:
            token = "<unk>"
        context = tuple(c if (c,) in self.entries else "<unk>" for c in context)
        return self._log10((*context, token)[-self.order :]) * math.log(10)

    def sentence(self, tokens):
        """Of the tokens and the end."""
        history = ["<s>", *tokens, "</s>"]
        return [self.score(history[:i], history[i]) for i in range(1, len(history))]

    def _log10(self, ngram):
        if ngram in self.entries:
            return self.entries[ngram][0]
        return self.entries.get(ngram[:-1], (0, 0.0))[1] + self._log10(ngram[1:])
