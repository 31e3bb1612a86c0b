"""Random tasks for the beam search, small enough for `beam_search_oracle.brute_force`."""

import dataclasses
import itertools

import numpy as np

from ds2_tf.alphabet import Alphabet
from ds2_tf.decoding.beam_search import BeamSearchDecoder, BeamSearchOptions
from tests.decoding.beam_search_oracle import Task
from tests.decoding.ngram_model import SPACE, LentModel, NgramModel

ALPHABETS = {
    "spaced": Alphabet((" ", "a", "b")),
    "spaceless": Alphabet(("a", "b", "c")),
    "bigram": Alphabet((" ", "a", "b", "ab", "ba"), kind="bigram"),
    "mixed": Alphabet((" ", "a", "東", "京"), language="zh"),
    "spaced mixed": Alphabet((" ", "a", "東", "京"), language="ko"),
}
# Of each alphabet: the units of a language model that make sense.
UNITS = {
    "spaced": ("word", "character", "mixed"),
    "spaceless": ("character",),
    "bigram": ("word", "character"),
    "mixed": ("mixed", "character"),
    "spaced mixed": ("word", "mixed", "character"),
}
NUM_FRAMES = {"spaced": 5, "spaceless": 5, "bigram": 4, "mixed": 4, "spaced mixed": 4}
_WORDS = {
    "spaced": ("a", "b", "ab", "ba", "aa", "bb", "aba"),
    "spaceless": ("a", "b", "c"),
    "bigram": ("a", "b", "ab", "ba", "bb", "aba", "abb"),
    "mixed": ("a", "aa", "東", "京"),
    "spaced mixed": ("a", "東", "京", "aa"),
}


def random_log_probs(
    generator: np.random.Generator, num_frames: int, num_labels: int, scale: float = 0.0
) -> np.ndarray:
    """Returns log-probabilities [T, V], at times some of them -inf."""
    scale = scale or generator.choice([0.3, 1.0, 3.0])
    logits = scale * generator.normal(size=[num_frames, num_labels])
    if generator.random() < 0.2:
        logits[:, 1:][generator.random([num_frames, num_labels - 1]) < 0.2] = -np.inf
    return (logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)).astype(np.float32)


def random_model(generator: np.random.Generator, name: str, unit: str) -> NgramModel:
    words = _WORDS[name]
    if unit == "character":
        words = [character for character in ALPHABETS[name].symbols if len(character) == 1]
        words = [SPACE if c == " " else c for c in words if c != " " or ALPHABETS[name].spaced]
    tokens = [word for word in words if generator.random() < 0.7]
    order = int(generator.integers(2, 5))
    return NgramModel(unit, tokens, order, int(generator.integers(2**31)))


def random_hot_words(
    generator: np.random.Generator, name: str, unit: str | None
) -> dict[str, float]:
    words = _WORDS[name]
    if name == "mixed" and unit == "character":
        words = ("東", "京")
    phrases = list(words)
    if ALPHABETS[name].spaced:
        phrases += [" ".join(pair) for pair in itertools.product(words[:3], repeat=2)]
        phrases += [" ".join(some) for some in itertools.product(words[:2], repeat=3)]
    elif name == "spaceless" or unit == "character":
        phrases += ["".join(pair) for pair in itertools.product(words, repeat=2)]
    else:
        phrases += ["東京", "a東", "東a", "京京"]
    chosen = generator.choice(phrases, size=generator.integers(1, 5), replace=False)
    return {str(phrase): float(generator.uniform(0.1, 8)) for phrase in chosen}


def random_task(generator: np.random.Generator) -> tuple[Task, np.ndarray]:
    """Returns a task and log-probabilities [T, V]."""
    name = str(generator.choice(list(ALPHABETS)))
    alphabet = ALPHABETS[name]
    unit = str(generator.choice(UNITS[name])) if generator.random() < 0.75 else None
    model = random_model(generator, name, unit) if unit else None
    hot_words = random_hot_words(generator, name, unit) if generator.random() < 0.5 else {}
    may_be_closed = unit is not None and not (unit == "character" and alphabet.spaced)
    closed = may_be_closed and generator.random() < 0.4
    allowed_words = None
    if alphabet.spaced and not closed and generator.random() < 0.2:
        size = generator.integers(1, 5)
        allowed_words = [str(w) for w in generator.choice(_WORDS[name], size, replace=False)]
    task = Task(
        alphabet,
        model,
        lm_weight=float(generator.choice([0.0, 0.5, 1.0, 2.5])),
        word_bonus=float(generator.choice([0.0, 1.0, -1.5, 4.0])),
        unknown_penalty=float(generator.choice([0.0, -5.0, -2.0])),
        closed=bool(closed),
        allowed_words=allowed_words,
        hot_words=hot_words,
    )
    num_frames = int(generator.integers(NUM_FRAMES[name] + 1))
    return task, random_log_probs(generator, num_frames, alphabet.num_labels)


def spoken(
    generator: np.random.Generator,
    alphabet: Alphabet,
    text: str,
    pauses: dict[int, int] | None = None,
    noise: float = 1.0,
) -> tuple[np.ndarray, list[int]]:
    """Returns what a network could write for a text: log-probabilities [T, V], frames of symbols.

    Args:
      generator: of the noise, and of how long each symbol takes.
      alphabet: of V - 1 symbols.
      text: what is said.
      pauses: frames of silence before the symbols of these numbers, besides the usual gap.
      noise: standard deviation of the logits, whose peaks are 6 high.
    """
    best, frames = [], []
    for number, label in enumerate(alphabet.encode(text)):
        best += [0] * ((pauses or {}).get(number, 0) + int(generator.integers(1, 4)))
        frames.append(len(best))
        best += [label] * int(generator.integers(1, 3))
    best += [0] * 3
    logits = noise * generator.normal(size=[len(best), alphabet.num_labels])
    logits[np.arange(len(best)), best] += 6
    log_probs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    return log_probs.astype(np.float32), frames


def make_decoder(task: Task, **options) -> BeamSearchDecoder:
    """Returns a task's decoder, which prunes nothing unless options say so."""
    everything = BeamSearchOptions(
        beam_width=100_000,
        lm_weight=task.lm_weight,
        word_bonus=task.word_bonus,
        cutoff_probability=1.0,
        cutoff_symbols=10_000,
        score_threshold=600.0,
        unknown_penalty=task.unknown_penalty,
        closed=task.closed,
        hot_space_share=0.0,
        num_hypotheses=100_000,
    )
    return BeamSearchDecoder(
        task.alphabet,
        dataclasses.replace(everything, **options),
        LentModel(task.model) if task.model else None,
        seconds_per_frame=0.02,
        hot_words=task.hot_words or None,
        allowed_words=task.allowed_words,
    )
