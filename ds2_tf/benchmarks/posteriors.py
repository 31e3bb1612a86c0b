"""What decoders are measured on: log-probabilities with texts, from a file or simulated."""

import dataclasses
import itertools
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ds2_tf.alphabet import Alphabet

_ALIKE = ("aeiouy", "bpdtgk", "mn", "szcxjq", "fvw", "lrh", "' ")  # What is taken for one another.


@dataclasses.dataclass(frozen=True)
class Posteriors:
    """Utterances as an acoustic model gives them to a decoder.

    Attributes:
      name: in tables.
      alphabet: of the labels.
      log_probs: [T, V] float32 for each utterance.
      texts: what is said in each.
      seconds_per_frame: step of a frame.
    """

    name: str
    alphabet: Alphabet
    log_probs: Sequence[np.ndarray]
    texts: Sequence[str]
    seconds_per_frame: float = 0.02

    @property
    def seconds(self) -> float:
        """The length of all utterances together."""
        return self.seconds_per_frame * sum(len(frames) for frames in self.log_probs)

    def __getitem__(self, part: slice) -> "Posteriors":
        return dataclasses.replace(self, log_probs=self.log_probs[part], texts=self.texts[part])

    def save(self, path: str | os.PathLike) -> None:
        """Writes an .npz file: log_probs_0, log_probs_1, ..., texts, symbols (blank: ""), ..."""
        arrays: dict[str, Any] = {f"log_probs_{i}": x for i, x in enumerate(self.log_probs)}
        np.savez(
            path,
            texts=np.array(self.texts),
            symbols=np.array(["", *self.alphabet.symbols]),
            seconds_per_frame=np.float64(self.seconds_per_frame),
            **arrays,
        )


def load(path: str | os.PathLike, name: str) -> Posteriors:
    """Reads what `Posteriors.save` wrote."""
    with np.load(path) as arrays:
        texts = [str(text) for text in arrays["texts"]]
        return Posteriors(
            name,
            Alphabet(tuple(str(symbol) for symbol in arrays["symbols"][1:])),
            [arrays[f"log_probs_{i}"] for i in range(len(texts))],
            texts,
            float(arrays["seconds_per_frame"]),
        )


def with_fillers(texts: Sequence[str], num_labels: int) -> Alphabet:
    """Returns the alphabet of the texts' characters and ideographs that they lack.

    Args:
      texts: in a script without spaces.
      num_labels: V, the blank included.
    """
    used = sorted(set("".join(texts)))
    fillers = (chr(c) for c in range(0x4E00, 0x9FFF) if chr(c) not in set(used))
    wanted = max(0, num_labels - 1 - len(used))
    return Alphabet((*used, *itertools.islice(fillers, wanted)), language="zh")


def phrases(text: str, num_symbols: int, vocabulary: Sequence[str] = ()) -> list[str]:
    """Cuts a text into runs of words that have together at least so many characters.

    Args:
      text: normalised.
      num_symbols: characters of a phrase, spaces included, but for its last word.
      vocabulary: phrases with other words are left out; empty for none.
    """
    found, words, known = [], list[str](), frozenset(vocabulary)
    for word in text.split():
        words.append(word)
        if sum(map(len, words)) + len(words) > num_symbols:
            if not known or known.issuperset(words):
                found.append(" ".join(words))
            words = []
    return found


def simulate(
    name: str,
    texts: Sequence[str],
    alphabet: Alphabet,
    *,
    num_frames: int = 400,
    temperature: float = 1.0,
    errors: float = 0.15,
    seed: int = 0,
) -> Posteriors:
    """Makes posteriors as a trained CTC model gives them: spikes between frames of blanks.

    Each symbol is a spike of a frame or two, in which symbols like it, or the blank, compete with
    it, now and then with success; every frame has noise. So greedy decoding makes errors.

    Args:
      name: of the result.
      texts: of the alphabet's characters.
      alphabet: V - 1 symbols, a character each.
      num_frames: T of each utterance.
      temperature: by which logits are divided: 1 gives peaky posteriors, 3 flat ones.
      errors: share of the symbols that a rival masks.
      seed: of the noise; the same for every temperature.
    """
    rng = np.random.default_rng(seed)
    rivals = _rivals(alphabet, rng)
    log_probs = []
    for text in texts:
        labels = alphabet.encode(text)
        if 2 * len(labels) > num_frames:
            raise ValueError(f"num_frames must be >= {2 * len(labels)}. Received: {num_frames}")
        logits = rng.normal(0.0, 1.0, (num_frames, alphabet.num_labels)).astype(np.float32)
        logits[:, 0] += 9.0
        lifted = np.zeros(logits.shape, bool)  # What stands out, against any number of labels.
        lifted[:, 0] = True
        space = num_frames / len(labels)
        for position, label in enumerate(labels):
            jitter = rng.uniform(0.25, 0.75) if space >= 4 else 0.5
            frame = int((position + jitter) * space)
            spike = slice(frame, frame + 1 + int(rng.random() < 0.4))
            heights = _heights(label, rivals[label], errors, rng)
            for competitor, height in heights.items():
                logits[spike, competitor] += height
                lifted[spike, competitor] = True
        logits /= temperature
        logits += lifted * np.float32(math.log(alphabet.num_labels / 29))
        logits -= logits.max(1, keepdims=True)
        log_probs.append(logits - np.log(np.exp(logits).sum(1, keepdims=True)))
    return Posteriors(name, alphabet, log_probs, texts)


def _rivals(alphabet: Alphabet, rng: np.random.Generator) -> list[np.ndarray]:
    # The labels that each label is taken for.
    labels = {symbol: i + 1 for i, symbol in enumerate(alphabet.symbols)}
    groups = {s: [labels[x] for x in group if x in labels] for group in _ALIKE for s in group}
    found = [np.array([0])]
    for symbol, label in labels.items():
        like = [x for x in groups.get(symbol, []) if x != label]
        if not like:
            like = [int(x) for x in rng.integers(1, alphabet.num_labels, 6) if x != label] or [0]
        found.append(np.array(like))
    return found


def _heights(
    label: int, rivals: np.ndarray, errors: float, rng: np.random.Generator
) -> dict[int, float]:
    # By how much the logits of a symbol and of some rivals stand out where it is said.
    masked = rng.random() < errors
    chosen = [int(rival) for rival in rng.permutation(rivals)[:3]]
    heights = dict(zip(chosen, rng.normal(12.5 if masked else 8.0, 1.5, len(chosen)), strict=True))
    if masked and rng.random() < 0.2:
        heights = {}  # The blank alone: almost left out.
    heights[label] = rng.normal(11.5 if masked else 14.5, 1.0)
    return heights
