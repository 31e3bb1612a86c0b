"""The objective of decoding, computed for one text in the plain way: a check on every search."""

import dataclasses

import numpy as np

from ds2_tf.alphabet import BLANK, Alphabet


@dataclasses.dataclass(frozen=True)
class _Graph:
    labels: np.ndarray  # [S]: what each state emits
    sources: np.ndarray  # [S, 4]: whence it is reached, S (which has probability 0) where unused
    first: list[int]
    last: list[int]


def acoustic_score(log_probs: np.ndarray, text: str, alphabet: Alphabet) -> float:
    """Returns ln p_ctc(text), the probability of all alignments that spell the text.

    Where the alphabet has a space, spaces at both ends and doubled ones cost nothing.

    Args:
      log_probs: [T, V].
      text: normalised.
      alphabet: V - 1 symbols, a character each.
    """
    graph = _graph(alphabet.encode(text), _space(alphabet))
    scores = np.full(len(graph.labels) + 1, -np.inf)
    emitted = np.asarray(log_probs, np.float64)[:, graph.labels]
    scores[graph.first] = emitted[0, graph.first]
    with np.errstate(invalid="ignore"):
        for frame in emitted[1:]:
            came = scores[graph.sources]
            most = came.max(1)
            total = most + np.log(np.exp(came - most[:, None]).sum(1))
            scores[:-1] = np.where(np.isfinite(most), total, -np.inf) + frame
    return float(np.logaddexp.reduce(scores[graph.last]))


def _space(alphabet: Alphabet) -> int | None:
    return alphabet.symbols.index(" ") + 1 if " " in alphabet.symbols else None


def _graph(labels: list[int], space: int | None) -> _Graph:
    # States 0, 2, 4, ... are blanks, the odd ones labels in turn; spaces may come at both ends.
    if space is not None:
        labels = [space, *labels, space] if labels else [space]
    count = 2 * len(labels) + 1
    emitted = np.full(count, BLANK)
    emitted[1::2] = labels
    sources = np.full((count, 4), count)
    for state in range(count):
        whence = [state]
        if state >= 1:
            whence.append(state - 1)
        if state % 2 and state >= 3 and emitted[state] != emitted[state - 2]:
            whence.append(state - 2)
        if space is not None and emitted[state] == space:
            whence.append(state + 1)  # Another space of the same run.
        if space is not None and state == 3 and labels[1] != space:
            whence.append(0)  # No space at the beginning.
        sources[state, : len(whence)] = whence
    optional = space is not None and len(labels) > 1
    first = [0, 1, 3] if optional else [0, 1]
    last = list(range(max(0, count - (4 if optional else 2)), count))
    if space is not None and not optional:
        last = [0, 1, 2]
    return _Graph(emitted, sources, first if count > 1 else [0], last)
