"""Small back-off n-gram models in plain Python: scored, written as ARPA, or lent to C."""

import ctypes
import math
import types
from collections.abc import Sequence

import numpy as np

UNKNOWN, BEGIN, END = "<unk>", "<s>", "</s>"
SPACE = "\u2581"
_STATE_BYTES = 64
_LN10 = math.log(10.0)


class NgramModel:
    """p(token | context) of an ARPA file, by the book.

    Attributes:
      unit: "word", "character" or "mixed".
      vocabulary: tokens by index; 0 is <unk>, then <s>, </s>.
      order: the longest n-gram's length, at least 2.
      log10: n-gram -> (log10 probability, log10 back-off weight).
    """

    def __init__(self, unit: str, tokens: Sequence[str], order: int, seed: int) -> None:
        """Makes up an n-gram model of these tokens; its probabilities need not add up to 1."""
        generator = np.random.default_rng(seed)
        self.unit = unit
        self.order = order
        self.vocabulary = [UNKNOWN, BEGIN, END, *tokens]
        self._index = {token: index for index, token in enumerate(self.vocabulary)}
        self.log10: dict[tuple[str, ...], tuple[float, float]] = {}
        for token in self.vocabulary:
            self._add((token,), generator)
        self.log10[(BEGIN,)] = (-99.0, self.log10[(BEGIN,)][1])
        for length in range(2, order + 1):
            shorter = [ngram for ngram in self.log10 if len(ngram) == length - 1]
            for context in shorter:
                if context[-1] == END:
                    continue
                for token in self.vocabulary[2:]:
                    known = (*context[1:], token) in self.log10
                    if known and UNKNOWN not in context and generator.random() < 0.5:
                        self._add((*context, token), generator)

    def _add(self, ngram: tuple[str, ...], generator: np.random.Generator) -> None:
        last = len(ngram) == self.order or ngram[-1] == END
        backoff = 0.0 if last else round(-generator.random(), 4)
        self.log10[ngram] = (round(-2 * generator.random() - 0.05, 4), backoff)

    def index(self, token: str) -> int:
        """Returns the token's index, 0 for an unknown one; <s> and </s> are no tokens of a text."""
        index = self._index.get(token, 0)
        return index if index > 2 else 0

    def score(self, context: Sequence[str], token: str) -> float:
        """Returns ln p(token | context); tokens out of the vocabulary are <unk>."""
        known = [t if t in self._index else UNKNOWN for t in (*context, token)]
        return _LN10 * self._log10(tuple(known[-self.order :]))

    def _log10(self, ngram: tuple[str, ...]) -> float:
        if ngram in self.log10:
            return self.log10[ngram][0]
        return self.log10.get(ngram[:-1], (0.0, 0.0))[1] + self._log10(ngram[1:])

    def sentence(self, tokens: Sequence[str], ended: bool = True) -> float:
        """Returns ln p(tokens </s> | <s>), without </s> unless `ended`."""
        context = [BEGIN]
        total = 0.0
        for token in (*tokens, END) if ended else tokens:
            total += self.score(context, token)
            context.append(token)
        return total

    def arpa(self) -> str:
        """Returns the content of the ARPA file."""
        by_length = [[n for n in self.log10 if len(n) == k] for k in range(1, self.order + 1)]
        lines = ["\\data\\", *(f"ngram {k}={len(n)}" for k, n in enumerate(by_length, start=1))]
        for length, ngrams in enumerate(by_length, start=1):
            lines += ["", f"\\{length}-grams:"]
            for ngram in ngrams:
                probability, backoff = self.log10[ngram]
                end = f"\t{backoff}" if length < self.order else ""
                lines.append(f"{probability}\t{' '.join(ngram)}{end}")
        return "\n".join([*lines, "", "\\end\\", ""])


class _State(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_ubyte * _STATE_BYTES),)


_STATE = ctypes.POINTER(_State)
_BEGIN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, _STATE)
_SCORE = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_void_p, _STATE, ctypes.c_uint32, _STATE)


class _Table(ctypes.Structure):
    """The struct ds2_language_model of native/decoder/language_model.h."""

    _fields_ = (
        ("model", ctypes.c_void_p),
        ("vocabulary_size", ctypes.c_uint32),
        ("end_of_sentence", ctypes.c_uint32),
        ("begin_sentence", _BEGIN),
        ("score", _SCORE),
    )


class LentModel:
    """An `NgramModel` in the form of `ds2_tf.decoding.language_model.LanguageModel`.

    The state in C holds the indices of the last tokens, after their number.
    """

    def __init__(self, model: NgramModel) -> None:
        self.model = model
        self.vocabulary = model.vocabulary
        self.index = model.index
        self.info = types.SimpleNamespace(
            unit=model.unit, order=model.order, vocabulary_size=len(model.vocabulary)
        )
        self.num_scores = 0
        self._cache: dict[tuple[tuple[int, ...], int], float] = {}
        self._table = _Table(
            None, len(model.vocabulary), 2, _BEGIN(self._begin), _SCORE(self._score)
        )
        self.native = ctypes.addressof(self._table)

    def _write(self, state: ctypes.Array, indices: Sequence[int]) -> None:
        packed = np.zeros(_STATE_BYTES // 4, np.uint32)
        packed[0] = len(indices)
        packed[1 : 1 + len(indices)] = indices
        ctypes.memmove(state, packed.tobytes(), _STATE_BYTES)

    def _begin(self, _: int | None, state: ctypes.Array) -> None:
        self._write(state, [1])

    def _score(self, _: int | None, state: ctypes.Array, token: int, after: ctypes.Array) -> float:
        assert ctypes.addressof(state.contents) != ctypes.addressof(after.contents)
        assert token < len(self.vocabulary)
        self.num_scores += 1
        packed = np.frombuffer(bytes(state.contents.bytes), np.uint32)
        indices = tuple(int(i) for i in packed[1 : 1 + packed[0]])
        self._write(after, (*indices, token)[-(self.model.order - 1) :])
        if (indices, token) not in self._cache:
            context = [self.vocabulary[i] for i in indices]
            self._cache[indices, token] = self.model.score(context, self.vocabulary[token])
        return self._cache[indices, token]
