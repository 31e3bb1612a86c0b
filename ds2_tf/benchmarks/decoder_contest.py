"""Beam searches at the same work: tuned on one set of utterances, measured in turn on another."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ds2_tf import metrics
from ds2_tf.benchmarks.decoder_client import Decoded, DecoderClient
from ds2_tf.benchmarks.posteriors import Posteriors

LM_WEIGHTS = (0.5, 0.8, 0.3, 1.2, 0.15)  # The first wins when errors are equal.
WORD_BONUSES = (0.5, 0.0, 1.0, -1.0, 2.0, -2.0)
_TRIALS = len(LM_WEIGHTS) + len(WORD_BONUSES) + 2
_FEWEST = 3  # Utterances that a slow system decodes all the same.


class Searcher(Protocol):
    """What decodes sets of utterances: ours, or a `DecoderClient`."""

    def prepare(
        self, name: str, system: str, posteriors: Posteriors, settings: Mapping[str, Any]
    ) -> None:
        """Makes a decoder ready to run under a name."""

    def run(self, name: str, first: int, count: int) -> Decoded:
        """Decodes some utterances of the set."""


@dataclasses.dataclass(frozen=True)
class Contender:
    """A system with the settings of its pruning.

    Attributes:
      name: in tables.
      searcher: what runs it.
      system: its name there.
      settings: beside beam width, lm_weight and word_bonus.
    """

    name: str
    searcher: Searcher
    system: str
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def is_ours(self) -> bool:
        """Whether it is not a peer."""
        return not isinstance(self.searcher, DecoderClient)


@dataclasses.dataclass(frozen=True)
class Result:
    """How a contender fared with the first utterances of a set.

    Attributes:
      contender: which.
      settings: all of them.
      texts: of the utterances.
      cpu_seconds: the median of each utterance's passes.
    """

    contender: Contender
    settings: Mapping[str, Any]
    texts: list[str]
    cpu_seconds: list[float]

    def milliseconds(self, count: int | None = None) -> float:
        """Returns CPU time an utterance, of the first `count` ones."""
        return 1e3 * statistics.fmean(self.cpu_seconds[:count])

    def word_error_rate(self, references: Sequence[str], count: int | None = None) -> float:
        """Returns the rate over the first `count` utterances."""
        pairs = zip(references[:count], self.texts[:count], strict=False)
        return metrics.total([metrics.word_errors(*pair) for pair in pairs]).rate


def tune(
    contender: Contender, dev: Posteriors, beam_width: int, seconds: float
) -> tuple[dict[str, Any], Result]:
    """Finds lm_weight, then word_bonus, then lm_weight again at the lowest word error rate.

    Every contender gets the same grid. Slow ones see as many utterances as the time allows.

    Args:
      contender: what is tuned.
      dev: the utterances.
      beam_width: of the search.
      seconds: CPU time for all trials; at least a few utterances are decoded in any case.

    Returns:
      The settings, and the result with them.
    """
    settings = {
        **contender.settings,
        "beam_width": beam_width,
        "lm_weight": LM_WEIGHTS[0],
        "word_bonus": WORD_BONUSES[0],
    }
    once(contender, dev, settings, 1)
    cost = once(contender, dev, settings, _FEWEST).milliseconds() / 1e3
    count = min(len(dev.texts), max(_FEWEST, int(seconds / _TRIALS / cost)))
    tried: dict[tuple[float, float], tuple[float, Result]] = {}

    def rate(weight: float, bonus: float) -> float:
        if (weight, bonus) not in tried:
            changed = {**settings, "lm_weight": weight, "word_bonus": bonus}
            result = once(contender, dev, changed, count)
            tried[weight, bonus] = result.word_error_rate(dev.texts), result
        return tried[weight, bonus][0]

    bonus = WORD_BONUSES[0]
    weight = min(LM_WEIGHTS, key=lambda w: rate(w, bonus))
    bonus = min(WORD_BONUSES, key=lambda b: rate(weight, b))
    near = [weight * factor for factor in (1, 0.8, 1.3)]
    weight = min(near, key=lambda w: rate(w, bonus))
    result = tried[weight, bonus][1]
    return dict(result.settings), result


def once(
    contender: Contender, posteriors: Posteriors, settings: Mapping[str, Any], count: int
) -> Result:
    """Returns what a contender makes of the first utterances, decoded once."""
    contender.searcher.prepare(contender.name, contender.system, posteriors, settings)
    found = contender.searcher.run(contender.name, 0, count)
    return Result(contender, settings, found.texts, found.cpu_seconds)


def in_turn(
    entries: Sequence[tuple[Contender, Mapping[str, Any]]],
    posteriors: Posteriors,
    passes: int,
    seconds: float,
) -> list[Result]:
    """Returns the results of contenders that take turns at the utterances: A B A B ...

    An utterance before the others is for what happens only once. Contenders that need more than
    `seconds` of CPU time for all utterances decode fewer, once.
    """
    names, counts = [], []
    for number, (contender, settings) in enumerate(entries):
        name = f"{contender.name} {number}"
        contender.searcher.prepare(name, contender.system, posteriors, settings)
        contender.searcher.run(name, 0, 1)
        first = statistics.fmean(contender.searcher.run(name, 0, _FEWEST).cpu_seconds)
        names.append(name)
        counts.append(min(len(posteriors.texts), max(_FEWEST, int(seconds / first))))
    found: list[list[Decoded]] = [[] for _ in entries]
    for number in range(passes):
        for (contender, _), name, count, results in zip(entries, names, counts, found, strict=True):
            if not number or count == len(posteriors.texts):
                results.append(contender.searcher.run(name, 0, count))
    return [
        Result(
            contender,
            settings,
            results[0].texts,
            [statistics.median(x) for x in zip(*(r.cpu_seconds for r in results), strict=True)],
        )
        for (contender, settings), results in zip(entries, found, strict=True)
    ]


def pareto(results: Sequence[Result], references: Sequence[str]) -> list[Result]:
    """Returns the results that no other one beats in time and error rate, fastest first."""
    found: list[Result] = []
    best = float("inf")
    for result in sorted(results, key=lambda r: r.milliseconds()):
        rate = result.word_error_rate(references)
        if rate < best:
            found.append(result)
            best = rate
    return found


def not_worse(peer: Result, ours: Sequence[Result], references: Sequence[str]) -> list[Result]:
    """Returns those of ours with no more errors than a peer on its utterances, fastest first."""
    count = len(peer.texts)
    limit = peer.word_error_rate(references)
    good = [r for r in ours if r.word_error_rate(references, count) <= limit]
    return sorted(good, key=lambda r: r.milliseconds(count))
