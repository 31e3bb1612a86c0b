"""What the beam search must find, by its definition, in plain Python.

`brute_force` sums over all sequences of labels; `prefix_search` walks frame by frame over texts,
and equals it where nothing is pruned. `ctc_score` and `language_score` are the two halves of Q of
one given text. Log-probabilities are [T, V] with the blank at 0.
"""

import dataclasses
import heapq
import itertools
import math
import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ds2_tf.alphabet import Alphabet
from tests.decoding.ngram_model import SPACE, NgramModel

_UNSPACED_SCRIPTS = ("CJK UNIFIED", "HIRAGANA", "KATAKANA", "BOPOMOFO", "THAI", "LAO", "KHMER")


class Result(NamedTuple):
    text: str
    score: float
    acoustic: float
    language: float


@dataclasses.dataclass(frozen=True)
class Task:
    """All that a score depends on besides the log-probabilities; names as in BeamSearchOptions."""

    alphabet: Alphabet
    model: NgramModel | None = None
    lm_weight: float = 0.5
    word_bonus: float = 1.0
    unknown_penalty: float = -5.0
    closed: bool = False
    allowed_words: Sequence[str] | None = None
    hot_words: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def unit(self) -> str:
        """What a word is: to hot phrases and closed vocabularies, in the absence of a model too."""
        if self.model is not None and not (self.model.unit == "character" and self.alphabet.spaced):
            return self.model.unit
        return "word" if self.alphabet.spaced else "mixed"

    def words(self, text: str) -> list[str]:
        return units(text, self.unit)

    def tokens(self, text: str) -> list[str]:
        """Returns what the language model scores."""
        if self.model.unit == "character" and self.alphabet.spaced:
            return [SPACE if character == " " else character for character in text]
        return units(text, self.model.unit)

    @property
    def hot_tokens(self) -> set[str]:
        return {word for phrase in self.hot_words for word in self.words(phrase)}

    @property
    def vocabulary(self) -> set[str] | None:
        """Returns the words that may occur; None for any."""
        if self.allowed_words is not None:
            return {*self.allowed_words, *self.hot_tokens}
        if self.closed:
            return {*self.model.vocabulary[3:], *self.hot_tokens}
        return None

    def allows(self, text: str, unfinished: bool = False) -> bool:
        """Whether all words may occur; the last one need not be whole if `unfinished`."""
        vocabulary = self.vocabulary
        if vocabulary is None:
            return True
        words = self.words(text)
        last = words.pop() if words and unfinished and not text.endswith(" ") else ""
        return all(word in vocabulary for word in words) and any(
            word.startswith(last) for word in {*vocabulary, ""}
        )


def is_ideograph(character: str) -> bool:
    return unicodedata.name(character, "").startswith(_UNSPACED_SCRIPTS)


def units(text: str, unit: str) -> list[str]:
    """Cuts a text into words, characters without the spaces, or ideographs and other runs."""
    if unit == "word":
        return text.split()
    if unit == "character":
        return list(text.replace(" ", ""))
    return "".join(f" {c} " if is_ideograph(c) else c for c in text).split()


def language_score(task: Task, text: str, ended: bool = True) -> float:
    """Returns all of Q but ln p_ctc, without </s> unless `ended`."""
    words = task.words(text)
    total = 0.0
    for phrase, boost in task.hot_words.items():
        wanted = task.words(phrase)
        starts = range(len(words) - len(wanted) + 1)
        total += boost * sum(words[i : i + len(wanted)] == wanted for i in starts)
    if task.model is None:
        return total
    tokens = task.tokens(text)
    spelt = task.model.unit == "character" and task.alphabet.spaced
    hot = set() if spelt else task.hot_tokens  # A character of a word is no word.
    unknown = sum(task.model.index(token) == 0 and token not in hot for token in tokens)
    log_probability = task.model.sentence(tokens, ended) + task.unknown_penalty * unknown
    return total + task.lm_weight * log_probability + task.word_bonus * len(tokens)


def append(text: str, symbol: str) -> str:
    """Returns the text with one more symbol; of spaces none leads and one follows a word."""
    return text if symbol == " " and text[-1:] in ("", " ") else text + symbol


def best_first(task: Task, masses: Mapping[str, float]) -> list[Result]:
    """Returns the admissible texts with ln p_ctc, by Q, equal ones by text; those of mass 0 not."""
    results = []
    for text, acoustic in masses.items():
        if acoustic > -math.inf and task.allows(text):
            language = language_score(task, text)
            results.append(Result(text, acoustic + language, acoustic, language))
    return sorted(results, key=lambda result: (-result.score, result.text))


def brute_force(task: Task, log_probs: np.ndarray) -> list[Result]:
    """Returns every text of [T, V] by Q, from all V^T sequences of labels."""
    num_frames, num_labels = log_probs.shape
    masses: dict[str, list[float]] = {}
    for path in itertools.product(range(num_labels), repeat=num_frames):
        text = ""
        for label, _ in itertools.groupby(path):
            text = append(text, task.alphabet.symbols[label - 1]) if label else text
        logs = [float(row[label]) for row, label in zip(log_probs, path, strict=True)]
        masses.setdefault(text.strip(), []).append(math.exp(math.fsum(logs)))
    logs = {text: math.fsum(mass) for text, mass in masses.items()}
    return best_first(task, {t: math.log(p) if p else -math.inf for t, p in logs.items()})


def prefix_search(
    task: Task,
    log_probs: np.ndarray,
    beam_width: int = 10**9,
    cutoff_probability: float = 1.0,
    cutoff_symbols: int = 10**9,
    score_threshold: float = math.inf,
) -> list[Result]:
    """Returns texts by Q from a search over frames.

    A hypothesis is a text, with one space at its end where one was heard, and for each label that
    the frames so far may end in (the blank too) the mass of the ways to there. Between frames it is
    ranked by its mass and what the words that it has ended add to Q.
    """
    ranks: dict[str, float] = {}
    beam: dict[str, dict[int, float]] = {"": {0: 0.0}}
    for row in np.asarray(log_probs, np.float64):
        following: dict[str, dict[int, list[float]]] = {}
        for label in _kept(row, cutoff_probability, cutoff_symbols):
            symbol = task.alphabet.symbols[label - 1] if label else ""
            for text, masses in beam.items():
                for last, mass in masses.items():
                    longer = append(text, symbol) if label not in (0, last) else text
                    ways = following.setdefault(longer, {}).setdefault(label, [])
                    ways.append(mass + row[label])
        scored = {}
        for text, ways in following.items():
            if not task.allows(text, unfinished=True):
                continue
            sums = {label: _log_sum(logs) for label, logs in ways.items()}
            if text not in ranks:
                ranks[text] = language_score(task, _ended_words(task, text), ended=False)
            scored[text] = (_log_sum(list(sums.values())) + ranks[text], sums)
        best = max((score for score, _ in scored.values()), default=0.0)
        alive = [t for t, (score, _) in scored.items() if score >= best - score_threshold]
        if len(alive) > beam_width:
            alive = heapq.nlargest(beam_width, alive, key=lambda text: scored[text][0])
        beam = {text: scored[text][1] for text in alive}
    ends: dict[str, list[float]] = {}
    for text, masses in beam.items():
        ends.setdefault(text.strip(), []).append(_log_sum(list(masses.values())))
    return best_first(task, {text: _log_sum(logs) for text, logs in ends.items()})


def ctc_score(task: Task, log_probs: np.ndarray, text: str) -> float:
    """Returns ln p_ctc of one text, however it is spelt and spaced."""
    masses: dict[tuple[str, int], float] = {("", 0): 0.0}
    for row in np.asarray(log_probs, np.float64):
        following: dict[tuple[str, int], list[float]] = {}
        for (prefix, last), mass in masses.items():
            for label, log_probability in enumerate(row.tolist()):
                symbol = task.alphabet.symbols[label - 1] if label else ""
                longer = append(prefix, symbol) if label not in (0, last) else prefix
                if (text + " ").startswith(longer) and log_probability > -math.inf:
                    ways = following.setdefault((longer, label), [])
                    ways.append(mass + log_probability)
        masses = {key: _log_sum(logs) for key, logs in following.items()}
    return _log_sum([mass for (prefix, _), mass in masses.items() if prefix.strip() == text])


def _ended_words(task: Task, text: str) -> str:
    """Returns a prefix's text up to the end of its last word that cannot grow."""
    if text.endswith(" ") or task.unit == "character" or (text and is_ideograph(text[-1])):
        return text.strip()
    words = task.words(text)
    return text.removesuffix(words[-1]).strip() if words else ""


def _kept(row: np.ndarray, cutoff_probability: float, cutoff_symbols: int) -> list[int]:
    """Returns the labels that survive, which are the fewest that reach the probability."""
    order = np.argsort(-row, kind="stable")
    num_kept = len(row)
    if cutoff_probability < 1.0:
        reached = np.cumsum(np.exp(row[order])) >= cutoff_probability
        num_kept = int(np.argmax(reached)) + 1 if reached.any() else len(row)
    kept = order[: min(num_kept, cutoff_symbols)]
    return [int(label) for label in kept if row[label] > -math.inf]


def _log_sum(logs: Sequence[float]) -> float:
    largest = max(logs, default=-math.inf)
    if largest == -math.inf:
        return -math.inf
    return largest + math.log(math.fsum(math.exp(log - largest) for log in logs))
