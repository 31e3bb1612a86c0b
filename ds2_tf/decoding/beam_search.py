"""Beam search: the text that acoustic and language model together find most probable.

The search is C++ (`native/decoder`), compiled at its first use, and without TensorFlow.

Source: Deep Speech 2, sections 3.8 and 7.3.
"""

import ctypes
import functools
import math
import weakref
from collections.abc import Mapping, Sequence

import numpy as np

from ds2_tf.alphabet import BLANK, Alphabet
from ds2_tf.decoding import lm_text
from ds2_tf.decoding.beam_options import BeamSearchOptions, Hypothesis, WordEvidence
from ds2_tf.decoding.beam_stream import BeamSearchStream
from ds2_tf.decoding.language_model import LanguageModel
from ds2_tf.decoding.native_words import (
    characters_of,
    native_words,
    ragged,
    with_boundaries,
    words_of,
)
from ds2_tf.decoding.spelling import LETTER, UNIT, Speller, kinds
from ds2_tf.native import decoder_library
from ds2_tf.transcript import Symbol

__all__ = [
    "BeamSearchDecoder",
    "BeamSearchOptions",
    "BeamSearchStream",
    "Hypothesis",
    "WordEvidence",
]


class BeamSearchDecoder:
    """Finds the texts y of largest ln p_ctc(y) + alpha ln p_lm(y) + beta word_count(y) + boosts.

    Of p_ctc, the paths of a text count together, also those that repeat a space or put one before
    or after all words. Threads may share a decoder; it is pickled by its language model's path.

      decoder = BeamSearchDecoder(alphabet, BeamSearchOptions(beam_width=100), language_model)
      best = decoder.decode(log_probs, lengths)[0][0]
    """

    def __init__(
        self,
        alphabet: Alphabet,
        options: BeamSearchOptions = BeamSearchOptions(),  # noqa: B008 (immutable)
        language_model: LanguageModel | None = None,
        *,
        seconds_per_frame: float = 0.02,
        hot_words: Mapping[str, float] | None = None,
        allowed_words: Sequence[str] | None = None,
    ) -> None:
        """Makes a decoder.

        Args:
          alphabet: what the labels mean.
          options: weights and pruning.
          language_model: of the alphabet's text.
          seconds_per_frame: for the times of symbols.
          hot_words: words or phrases and their boosts in nats, for all that it decodes; they match
            whole words only.
          allowed_words: if given, nothing but these words (and hot ones) is written.

        Raises:
          UserError: when the library cannot be compiled.
          ValueError: for words with characters that the alphabet lacks.
        """
        self.alphabet = alphabet
        self.options = options
        self.language_model = language_model
        self.seconds_per_frame = seconds_per_frame
        self.hot_words = dict(hot_words or {})
        self._allowed_words = None if allowed_words is None else tuple(allowed_words)
        self._library = decoder_library.load()
        self._unit = _unit(alphabet, language_model)
        # Between spaces; else each unit is a word.
        self._units_spell_words = alphabet.spaced and self._unit == "character"
        self._check_vocabulary()
        self._kinds = kinds(alphabet, self._unit)
        self._speller = Speller(alphabet, self._kinds, seconds_per_frame, options.confidence)
        self._characters = characters_of(alphabet)
        self._phrases = self._new_phrases(self.hot_words)
        self._handle = self._new_decoder()

    def __reduce__(self) -> tuple:
        make = functools.partial(
            BeamSearchDecoder,
            self.alphabet,
            self.options,
            self.language_model,
            seconds_per_frame=self.seconds_per_frame,
            hot_words=self.hot_words,
            allowed_words=self._allowed_words,
        )
        return make, ()

    def decode(
        self,
        log_probs: np.ndarray,
        lengths: Sequence[int] | np.ndarray,
        num_threads: int = 1,
        hot_words: Mapping[str, float] | None = None,
    ) -> list[list[Hypothesis]]:
        """Returns the hypotheses of each utterance, the best first, at least one.

        Args:
          log_probs: [B, T', V] float32, blank at 0. Frames past the length may hold anything.
          lengths: [B], valid frames.
          num_threads: utterances decoded at once, without the interpreter's lock.
          hot_words: for these utterances, besides the decoder's own.

        Raises:
          ValueError: for arrays of other shapes, or frames that are no log-probabilities.
        """
        log_probs = np.ascontiguousarray(log_probs, np.float32)
        lengths = np.asarray(lengths)
        num_labels = self.alphabet.num_labels
        is_shaped = log_probs.ndim == 3 and log_probs.shape[2] == num_labels
        if not is_shaped or lengths.shape != log_probs.shape[:1]:
            raise ValueError(
                f"log_probs and lengths must have shapes [B, T', {num_labels}] and [B]. "
                f"Received: {log_probs.shape} and {lengths.shape}"
            )
        if len(lengths) and not 0 <= lengths.min() <= lengths.max() <= log_probs.shape[1]:
            raise ValueError(
                f"lengths must lie in [0, {log_probs.shape[1]}]. Received: {lengths.tolist()}"
            )
        if num_threads < 1:
            raise ValueError(f"num_threads must be >= 1. Received: {num_threads}")
        lengths = lengths.astype(np.int64)
        phrases = self._request_phrases(hot_words)
        results = (ctypes.c_void_p * len(lengths))()
        error = ctypes.create_string_buffer(decoder_library.ERROR_BYTES)
        fine = self._library.ds2_decode(
            self._handle,
            ctypes.addressof(phrases[0]) if phrases else None,
            log_probs.ctypes.data,
            log_probs.shape[1],
            lengths.ctypes.data,
            len(lengths),
            num_threads,
            self.options.num_hypotheses,
            results,
            error,
            len(error),
        )
        if not fine:
            raise ValueError(f"log_probs: {error.value.decode()}")
        return [self._hypotheses(results[row] or 0) for row in range(len(lengths))]

    def stream(self, hot_words: Mapping[str, float] | None = None) -> BeamSearchStream:
        """Begins a stream.

        Args:
          hot_words: of this stream, besides the decoder's own.

        Raises:
          ValueError: for words with characters that the alphabet lacks.
        """
        return BeamSearchStream(self, self._request_phrases(hot_words))

    def _hypotheses(self, result: int) -> list[Hypothesis]:
        """Returns what a result holds, and frees it."""
        try:
            size = self._library.ds2_result_size(result)
            return [self._hypothesis(result, index) for index in range(size)]
        finally:
            self._library.ds2_result_free(result)

    def _hypothesis(self, result: int, index: int) -> Hypothesis:
        symbols, evidence = self._speller.spell(self._symbols(result, index))
        return self._scored(result, index, symbols, evidence)

    def _symbols(self, result: int, index: int) -> list[decoder_library.Symbol]:
        size = ctypes.c_size_t()
        address = self._library.ds2_result_symbols(result, index, ctypes.byref(size))
        return address[: size.value]

    def _scored(
        self, result: int, index: int, symbols: list[Symbol], evidence: list[WordEvidence]
    ) -> Hypothesis:
        score = self._library.ds2_result_score(result, index)
        language = self._library.ds2_result_language(result, index)
        return Hypothesis(tuple(symbols), score, score - language, language, tuple(evidence))

    def _request_phrases(
        self, hot_words: Mapping[str, float] | None
    ) -> tuple[decoder_library.HotPhrases, tuple] | None:
        return self._new_phrases({**self.hot_words, **hot_words}) if hot_words else self._phrases

    def _new_decoder(self) -> int:
        alphabet, options, model = self.alphabet, self.options, self.language_model
        space = alphabet.symbols.index(" ") + 1 if " " in alphabet.symbols else 0
        space_token = decoder_library.NO_TOKEN
        if model is not None and self._units_spell_words:
            space_token = model.index(lm_text.SPACE)
        kinds_array = np.array(self._kinds, np.uint8)
        unit_tokens = np.full(alphabet.num_labels, decoder_library.NO_TOKEN, np.uint32)
        if model is not None:
            for label, symbol in enumerate(alphabet.symbols, start=1):
                if self._kinds[label] == UNIT and len(symbol) == 1:
                    unit_tokens[label] = model.index(symbol)
        lexicon = self._lexicon()
        words, kept = native_words(lexicon) if lexicon is not None else (None, ())
        config = decoder_library.Config(
            num_labels=alphabet.num_labels,
            space=space,
            kinds=kinds_array.ctypes.data,
            characters=self._characters.ctypes.data,
            unit_tokens=unit_tokens.ctypes.data,
            space_token=space_token,
            lexicon=None if words is None else ctypes.addressof(words),
            language_model=model.native if model is not None else None,
            beam_width=options.beam_width,
            cutoff_symbols=options.cutoff_symbols,
            cutoff_probability=options.cutoff_probability,
            score_threshold=options.score_threshold,
            hot_space_share=options.hot_space_share,
            lm_weight=options.lm_weight,
            word_bonus=options.word_bonus,
            unknown_penalty=options.unknown_penalty,
            closed=options.closed or self._allowed_words is not None,
        )
        error = ctypes.create_string_buffer(decoder_library.ERROR_BYTES)
        handle = self._library.ds2_decoder_new(ctypes.byref(config), error, len(error))
        del kept
        if not handle:
            raise RuntimeError(error.value.decode())
        weakref.finalize(self, self._library.ds2_decoder_free, handle)
        return handle

    def _lexicon(self) -> list[tuple[list[int], int]] | None:
        """Returns the labels and tokens of the words that may be written or are known."""
        model = self.language_model
        if self._allowed_words is not None:
            unit = "word" if self.alphabet.spaced else self._unit
            words = [
                word
                for text in self._allowed_words
                for word in lm_text.tokens(self.alphabet.normalize(text), unit, False)
            ]
            return [
                (self._spell(word), model.index(word) if model is not None else 0) for word in words
            ]
        if model is None or (LETTER not in self._kinds[1:] and not self.options.closed):
            return None
        known = set("".join(self.alphabet.symbols)) - {" "}
        return [
            (self._spell(word), model.index(word))
            for word in model.vocabulary
            if model.index(word) and known.issuperset(word)
        ]

    def _check_vocabulary(self) -> None:
        if not self.options.closed or self._allowed_words is not None:
            return
        if self.language_model is None:
            raise ValueError("closed needs a language model or allowed_words. Received: neither")
        if self._units_spell_words:
            raise ValueError(
                "closed needs allowed_words with a language model of characters, which knows no "
                "words. Received: none"
            )

    def _spell(self, text: str) -> list[int]:
        """Returns the labels of a text's characters, whatever pairs the alphabet has."""
        labels = self._characters[self.alphabet.encode(text)].ravel()
        return labels[labels != BLANK].tolist()

    def _new_phrases(
        self, hot_words: Mapping[str, float]
    ) -> tuple[decoder_library.HotPhrases, tuple] | None:
        if not hot_words:
            return None
        model = self.language_model
        phrases, words = [], []
        for text, boost in hot_words.items():
            if not math.isfinite(boost):
                raise ValueError(f"the boost of {text!r} must be finite. Received: {boost}")
            try:
                labels = self._spell(text)
            except ValueError as error:
                raise ValueError(f"hot word {text!r}: {error}") from error
            if not labels:
                raise ValueError(f"hot word {text!r} holds no word")
            phrase = with_boundaries(labels, self._kinds, self._units_spell_words)
            phrases.append((phrase, boost))
            words += [
                (word, model.index(self.alphabet.decode(word)) if model is not None else 0)
                for word in words_of(labels, self._kinds, self._units_spell_words)
            ]
        flat, ends = ragged(phrase for phrase, _ in phrases)
        boosts = np.array([boost for _, boost in phrases], np.float32)
        spelt, kept = native_words(words)
        native = decoder_library.HotPhrases(
            num_phrases=len(phrases),
            labels=flat.ctypes.data,
            ends=ends.ctypes.data,
            boosts=boosts.ctypes.data,
            words=spelt,
        )
        return native, (flat, ends, boosts, kept)


def _unit(alphabet: Alphabet, model: LanguageModel | None) -> str:
    """Returns what the words of a text are: see `lm_text`."""
    if model is not None:
        return model.info.unit
    return "word" if alphabet.spaced else "mixed"
