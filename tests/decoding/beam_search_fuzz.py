"""Feeds the beam search with random and broken matrices, at best built with sanitizers.

    python -m tests.decoding.beam_search_fuzz FIRST_SEED NUM_SEEDS

prints what went wrong, by seed, and how many seeds ran. With $DS2_TF_SANITIZED the library is built
for sanitizers, which must be loaded before Python: see `beam_search_fuzz_test`.
"""

import functools
import os
import sys

import numpy as np

from ds2_tf.alphabet import Alphabet
from ds2_tf.decoding.beam_search import BeamSearchDecoder, BeamSearchOptions
from ds2_tf.native import compiling
from tests.decoding import beam_search_cases, beam_search_oracle
from tests.decoding.ngram_model import SPACE, LentModel, NgramModel
from tests.native.compiled import SANITIZERS

_SANITIZED_FLAGS = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-pthread", *SANITIZERS)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_PAIRS = tuple(a + b for a in _LETTERS[:8] for b in _LETTERS[:8])
_HAN = tuple(chr(0x4E00 + number) for number in range(5_999))
_ALPHABETS = [
    Alphabet((" ", *_LETTERS)),
    Alphabet(("a",)),
    Alphabet((" ",)),
    Alphabet(("a", "b", "c")),
    Alphabet((" ", *_LETTERS[:8], *_PAIRS), kind="bigram"),
    Alphabet((" ", *_LETTERS, *_HAN[:300]), language="zh"),
    Alphabet(_HAN, language="zh"),
]


def random_word(generator: np.random.Generator, alphabet: Alphabet, longest: int = 4) -> str:
    letters = [symbol for symbol in alphabet.symbols[:40] if symbol != " "] or ["a"]
    return "".join(generator.choice(letters, generator.integers(1, longest + 1)))


def random_model(generator: np.random.Generator, alphabet: Alphabet) -> NgramModel:
    unit = str(generator.choice(["word", "character", "mixed"]))
    order = int(generator.integers(2, 4))
    if unit == "character":
        tokens = {symbol for symbol in alphabet.symbols[:20] if len(symbol) == 1} - {" "}
        tokens = {token for token in tokens if generator.random() < 0.9} | {SPACE}
    else:
        tokens = {random_word(generator, alphabet) for _ in range(generator.integers(1, 15))}
    return NgramModel(unit, sorted(tokens), order, int(generator.integers(2**31)))


def random_decoder(generator: np.random.Generator, alphabet: Alphabet) -> BeamSearchDecoder:
    model = random_model(generator, alphabet) if generator.random() < 0.6 else None
    spells = model is not None and model.unit == "character" and alphabet.spaced
    closed = model is not None and not spells and generator.random() < 0.4
    options = BeamSearchOptions(
        beam_width=int(generator.choice([1, 2, 5, 20, 100])),
        lm_weight=float(generator.choice([0.0, 0.5, 3.0])),
        word_bonus=float(generator.choice([0.0, 2.0, -3.0])),
        unknown_penalty=float(generator.choice([0.0, -5.0, -50.0])),
        cutoff_probability=float(generator.choice([0.3, 0.99, 1.0])),
        cutoff_symbols=int(generator.choice([1, 2, 10, 40, 10_000])),
        score_threshold=float(generator.choice([0.1, 3.0, 20.0, 600.0])),
        num_hypotheses=int(generator.choice([1, 3, 1_000])),
        closed=bool(closed),
        hot_space_share=float(generator.choice([0.0, 0.2, 1.0])),
    )
    words = [random_word(generator, alphabet) for _ in range(8)]
    allowed_words = words[:4] if generator.random() < 0.2 and alphabet.symbols != (" ",) else None
    return BeamSearchDecoder(
        alphabet,
        options,
        LentModel(model) if model else None,
        seconds_per_frame=0.02,
        hot_words=random_hot_words(generator, alphabet, words),
        allowed_words=allowed_words,
    )


def random_hot_words(
    generator: np.random.Generator, alphabet: Alphabet, words: list[str]
) -> dict[str, float] | None:
    if alphabet.symbols == (" ",) or generator.random() < 0.5:
        return None
    space = " " if " " in alphabet.symbols else ""
    phrases = [space.join(generator.choice(words, generator.integers(1, 5))) for _ in range(5)]
    return {str(phrase): float(generator.uniform(0, 20)) for phrase in phrases}


def random_matrix(
    generator: np.random.Generator, num_frames: int, num_labels: int
) -> tuple[np.ndarray, bool]:
    """Returns "log-probabilities" [T, V], and whether all of them are what they should be."""
    logits = generator.choice([0.1, 1.0, 5.0, 100.0]) * generator.normal(
        size=[num_frames, num_labels]
    )
    log_probs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True, initial=-np.inf)
    kind = generator.random()
    if kind < 0.1:
        log_probs[generator.random(log_probs.shape) < generator.random()] = -np.inf
    elif kind < 0.15:
        log_probs[generator.random(num_frames) < 0.3] = -np.inf
    elif kind < 0.2:
        log_probs[:] = -np.log(num_labels)
    elif kind < 0.25:
        log_probs = logits  # No probabilities.
    if generator.random() < 0.1 and log_probs.size:
        where = tuple(generator.integers(log_probs.shape))
        log_probs[where] = generator.choice([np.nan, np.inf])
    possible = log_probs.max(axis=1, initial=-np.inf) > -np.inf
    return log_probs.astype(np.float32), bool(possible.all() and (log_probs <= 0.05).all())


def check_broken(seed: int) -> None:
    """Any matrix, any options: an answer, or a ValueError where there is something wrong."""
    generator = np.random.default_rng(seed)
    alphabet = _ALPHABETS[
        generator.choice(len(_ALPHABETS), p=[0.3, 0.1, 0.05, 0.2, 0.15, 0.15, 0.05])
    ]
    decoder = random_decoder(generator, alphabet)
    num_utterances = int(generator.integers(1, 4))
    num_frames = int(generator.integers(0, generator.choice([3, 15, 40])))
    lengths = generator.integers(0, num_frames + 1, num_utterances)
    num_labels = alphabet.num_labels
    batch = np.full([num_utterances, num_frames, num_labels], np.nan, np.float32)
    valid = True
    for row, length in enumerate(lengths):
        batch[row, :length], row_valid = random_matrix(generator, length, num_labels)
        valid = valid and row_valid
    if generator.random() < 0.05:
        lengths[0] = generator.choice([-1, num_frames + 1, 2**31 - 1])
        valid = False
    try:
        results = decoder.decode(batch, lengths, num_threads=int(generator.integers(1, 4)))
    except ValueError:
        assert not valid, "an error without reason"
        return
    assert valid, "no error"
    assert len(results) == num_utterances
    for row, hypotheses in enumerate(results):
        assert len(hypotheses) <= decoder.options.num_hypotheses
        texts = [hypothesis.text for hypothesis in hypotheses]
        assert len(set(texts)) == len(texts), texts
        assert texts == [" ".join(text.split()) for text in texts]
        stream = decoder.stream()
        start = 0
        while start < lengths[row]:
            end = min(start + int(generator.integers(0, 8)), lengths[row])
            stream.step(batch[row, start:end])
            if generator.random() < 0.3:
                stream.partial()
            start = end
        assert stream.finish() == hypotheses, "a stream differs"
        stream.reset()


def check_exact(seed: int) -> None:
    """A tiny task, nothing pruned: what the oracle says."""
    generator = np.random.default_rng(seed)
    task, log_probs = beam_search_cases.random_task(generator)
    expected = beam_search_oracle.prefix_search(task, log_probs)
    decoder = beam_search_cases.make_decoder(task)
    found = decoder.decode(log_probs[None], np.array([len(log_probs)]))[0]
    if not expected:
        return
    assert sorted(h.text for h in found) == sorted(r.text for r in expected)
    scores = {result.text: result.score for result in expected}
    for hypothesis in found:
        assert abs(hypothesis.score - scores[hypothesis.text]) < 1e-4, hypothesis.text


def main(first_seed: int, num_seeds: int) -> int:
    if os.environ.get("DS2_TF_SANITIZED"):
        compiling.library = functools.partial(compiling.library, flags=_SANITIZED_FLAGS)
    num_wrong = 0
    for seed in range(first_seed, first_seed + num_seeds):
        if seed % 500 == 499:
            print(f"at seed {seed}, {num_wrong} wrong", flush=True)
        for check in (check_broken, check_exact):
            try:
                check(seed)
            except Exception as error:
                num_wrong += 1
                print(f"seed {seed}, {check.__name__}: {type(error).__name__}: {error}"[:500])
    print(f"{num_seeds} seeds, {num_wrong} wrong")
    return int(num_wrong > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
