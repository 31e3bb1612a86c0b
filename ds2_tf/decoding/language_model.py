"""Language models of KenLM's: opened once, read by many threads; checked against the alphabet."""

import ctypes
import dataclasses
import functools
import os
import weakref
from collections.abc import Iterable, Sequence

import numpy as np
from absl import logging

from ds2_tf.alphabet import Alphabet
from ds2_tf.decoding import lm_info, lm_text
from ds2_tf.decoding.lm_info import LanguageModelInfo
from ds2_tf.decoding.perplexity import Perplexity
from ds2_tf.errors import UserError
from ds2_tf.native import compiling, kenlm

UNKNOWN_INDEX = 0

MAX_UNWRITABLE = 0.1
"""The share of a vocabulary that an alphabet may be unable to write."""

_MARKERS = ("<unk>", "<s>", "</s>")
_ERROR_BYTES = 2048


class LanguageModel:
    """A model of KenLM's, binary or ARPA, read-only: threads may share it.

    A binary file is mapped, so that processes share its memory too. Objects are pickled by the
    model's path.

    Attributes:
      path: of the file.
      info: what is known of it; without a JSON beside the file, what could be guessed.
      alphabet: that it was checked against, or None.
      native: the address of a `ds2_language_model` (native/decoder/language_model.h), valid as long
        as this object lives.
    """

    path: str
    info: LanguageModelInfo
    alphabet: Alphabet | None
    native: int

    def __init__(self, path: str | os.PathLike, preload: bool = True):
        """Opens a file without any check; `load` is for users.

        Args:
          path: of the file.
          preload: whether to read all of it now; else its parts are read when they are first used.

        Raises:
          UserError: when it cannot be opened.
        """
        self.path = os.path.abspath(path)
        self.alphabet = None
        self._preload = preload
        if not os.path.isfile(self.path):
            what = "is a folder" if os.path.isdir(self.path) else "there is no such file"
            raise UserError(f"{self.path}: {what}; name a language model's file")
        library = _library()
        message = ctypes.create_string_buffer(_ERROR_BYTES)
        handle = library.ds2_kenlm_open(os.fsencode(self.path), int(preload), message, _ERROR_BYTES)
        if not handle:
            reason = message.value.decode(errors="replace").rpartition("threw ")[2]
            reason = "".join(c if c.isprintable() else " " for c in reason)
            raise UserError(
                f"{self.path}: KenLM cannot read it ({' '.join(reason.split())}); name a binary "
                "or ARPA file"
            )
        weakref.finalize(self, library.ds2_kenlm_close, handle)
        self._handle = handle
        self.native = library.ds2_kenlm_functions(handle)
        self.info = LanguageModelInfo(
            self._guessed_unit(), library.ds2_kenlm_order(handle), self._num_tokens()
        )

    @classmethod
    def load(
        cls,
        path: str | os.PathLike,
        alphabet: Alphabet | None = None,
        unit: str | None = None,
        verify: bool = True,
        preload: bool = True,
    ) -> "LanguageModel":
        """Opens a model and checks that it fits.

        Args:
          path: of a binary file or an ARPA file. What stands beside it as PATH.json is believed;
            without one, the unit is guessed from the vocabulary, which the log says.
          alphabet: of the text that it is to judge.
          unit: what its tokens are, for a model without JSON.
          verify: whether the file's checksum is compared with the JSON's.
          preload: as in the constructor.

        Raises:
          UserError: when the file cannot be opened, isn't the one that the JSON describes, or
            belongs to text of another kind than the alphabet's; when there is no C++ compiler.
        """
        model = cls(path, preload)
        info = lm_info.load(model.path)
        if info is None:
            model.info = dataclasses.replace(model.info, unit=unit or model.info.unit)
            if unit is None:
                logging.info(
                    "%s has no JSON beside it; by its vocabulary its unit is taken to be '%s'",
                    model.path,
                    model.info.unit,
                )
        else:
            model._believe(info, verify)
            if unit not in (None, info.unit):
                raise UserError(
                    f"{model.path}: its unit is '{info.unit}' (says its JSON), not '{unit}'"
                    "; leave the unit out"
                )
        if alphabet is not None:
            model._check(alphabet)
            model.alphabet = alphabet
        return model

    def __reduce__(self) -> tuple:
        unit = None if lm_info.path_beside(self.path).exists() else self.info.unit
        return _load, (self.path, self.alphabet, unit, self._preload)

    @functools.cached_property
    def vocabulary(self) -> list[str]:
        """The tokens by index: 0 is <unk>; <s> and </s> are among them."""
        size = ctypes.c_size_t()
        address = _library().ds2_kenlm_words(self._handle, ctypes.byref(size))
        text = ctypes.string_at(address, size.value).decode(errors="replace")
        return text.split("\0")[:-1]

    @functools.cached_property
    def _indices(self) -> dict[str, int]:
        indices = {token: index for index, token in enumerate(self.vocabulary)}
        for marker in _MARKERS:
            indices.pop(marker, None)
        return indices

    def index(self, token: str) -> int:
        """Returns a token's index, 0 for one outside the vocabulary, as the three markers are."""
        return self._indices.get(token, UNKNOWN_INDEX)

    def tokens(self, text: str) -> list[str]:
        """Returns the tokens of a normalised text."""
        return lm_text.tokens(text, self.info.unit, self._has_space)

    def score(self, tokens: Sequence[str]) -> np.ndarray:
        """Returns ln p of each token after those before it, and of </s>: [U + 1] float32.

        Args:
          tokens: a sentence; the context of the first is <s>.
        """
        indices = np.array([self.index(token) for token in tokens], np.uint32)
        scores = np.empty(len(indices) + 1, np.float32)
        _library().ds2_kenlm_score(
            self.native, indices.ctypes.data, len(indices), scores.ctypes.data
        )
        return scores

    def perplexity(self, texts: Iterable[str]) -> Perplexity:
        """Measures how well sentences are predicted; these must be normalised."""
        sentences = num_tokens = unknown = 0
        total = known = 0.0
        for text in texts:
            tokens = self.tokens(text)
            scores = self.score(tokens).astype(np.float64)
            is_known = [self.index(token) != UNKNOWN_INDEX for token in tokens]
            sentences += 1
            num_tokens += len(tokens)
            unknown += is_known.count(False)
            total += float(scores.sum())
            known += float(scores[[*is_known, True]].sum())
        return Perplexity(sentences, num_tokens, unknown, total, known)

    @property
    def _has_space(self) -> bool:
        return lm_text.SPACE in self._indices

    def _num_tokens(self) -> int:
        return len(self._indices)

    def _guessed_unit(self) -> str:
        words = self._indices
        single = sum(len(word) == 1 for word in words)
        if single == len(words):
            return "character"
        ideographs = [any(map(lm_text.is_ideograph, word)) for word in words]
        lone = [len(word) == 1 for word in words]
        is_mixed = any(ideographs) and all(
            alone for alone, has in zip(lone, ideographs, strict=True) if has
        )
        return "mixed" if is_mixed else "word"

    def _believe(self, info: LanguageModelInfo, verify: bool) -> None:
        """Takes what the JSON says, unless the file shows it to be another's."""
        found = (self.info.order, self.info.vocabulary_size)
        differs = found != (info.order, info.vocabulary_size)
        if not differs and verify and info.sha256:
            differs = lm_info.checksum(self.path) != info.sha256
        if differs:
            beside = lm_info.path_beside(self.path)
            raise UserError(
                f"{self.path}: is not the file that {beside} describes; copy both files again, or "
                "build the language model again"
            )
        self.info = info

    def _check(self, alphabet: Alphabet) -> None:
        """Raises `UserError` when the model is of other text than the alphabet's."""
        info = self.info
        names = f"{self.path}: does not fit the alphabet ({_describe(alphabet)})"
        again = "build the language model with this alphabet"
        if {info.case, alphabet.case} == {"lower", "upper"}:
            raise UserError(
                f"{names}: its text is in {info.case} case, the alphabet's in {alphabet.case} "
                f"case; {again}"
            )
        if info.unicode not in ("", "NFC"):
            raise UserError(f"{names}: its text is in {info.unicode}, not in NFC; {again}")
        if info.unit == "word" and not alphabet.spaced:
            raise UserError(
                f"{names}: it knows words, which no spaces separate in the alphabet's text; {again}"
                " and --unit=character or mixed"
            )
        if info.unit == "character" and alphabet.spaced != self._has_space:
            state = "lacks" if alphabet.spaced else "has"
            raise UserError(
                f"{names}: it {state} the token of the space between words (U+2581); {again}"
            )
        form = lm_text.TextForm(alphabet)
        foreign = [token for token in self._indices if not form.writes(token)]
        share = len(foreign) / max(1, len(self._indices))
        if share > MAX_UNWRITABLE:
            examples = ", ".join(repr(token) for token in sorted(foreign)[:3])
            raise UserError(
                f"{names}: of its vocabulary {share:.0%} cannot be written, such as {examples}; "
                f"{again}"
            )
        if foreign:
            logging.info(
                "%s: %d of %d tokens cannot be written in the alphabet, and so not be recognised",
                self.path,
                len(foreign),
                len(self._indices),
            )


def _load(path: str, alphabet: Alphabet | None, unit: str | None, preload: bool) -> LanguageModel:
    """Opens a model again, in another process: what was compared there is not read once more."""
    return LanguageModel.load(path, alphabet, unit, verify=False, preload=preload)


def _describe(alphabet: Alphabet) -> str:
    symbols = "".join(alphabet.symbols)
    shown = symbols if len(symbols) <= 40 else f"{symbols[:40]}..."
    return f"{alphabet.language}, {alphabet.case} case, {len(alphabet.symbols)} symbols: {shown!r}"


@functools.cache
def _library() -> ctypes.CDLL:
    """Loads the library around KenLM; it is compiled at its first use.

    Raises:
      UserError: when it cannot be compiled.
    """
    try:
        library = ctypes.CDLL(str(kenlm.library()))
    except compiling.BuildError as error:
        raise UserError(f"language models need a library that is compiled once: {error}") from error
    pointer, size, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32
    for name, result, arguments in (
        ("open", pointer, [ctypes.c_char_p, ctypes.c_int32, ctypes.c_char_p, size]),
        ("close", None, [pointer]),
        ("functions", pointer, [pointer]),
        ("order", integer, [pointer]),
        ("words", pointer, [pointer, ctypes.POINTER(size)]),
        ("score", None, [pointer, pointer, size, pointer]),
    ):
        function = getattr(library, f"ds2_kenlm_{name}")
        function.restype, function.argtypes = result, arguments
    return library
