"""One kind of posteriors, one beam width: ours and the other beam searches side by side."""

import dataclasses
import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ds2_tf.benchmarks import ctc_objective, decoder_contest
from ds2_tf.benchmarks.decoder_client import DecoderClient
from ds2_tf.benchmarks.decoder_contest import Contender, Result
from ds2_tf.benchmarks.decoder_ours import OurSearch
from ds2_tf.benchmarks.measurement import Row
from ds2_tf.benchmarks.posteriors import Posteriors
from ds2_tf.decoding.language_model import LanguageModel

OURS = "ours"
_WIDE = {"closed": True, "score_threshold": 25.0, "cutoff_probability": 1.0}
_TUNED_WITH = {"closed": True, "score_threshold": 14.0, "cutoff_probability": 0.9999}
_THRESHOLDS = (3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0, 14.0, 20.0, 25.0)
_CUTOFFS = (0.99, 0.999, 0.9999, 1.0)
_PEERS: Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]] = {
    "flashlight": (
        ("flashlight 10", {"score_threshold": 10}),
        ("flashlight 25", {"score_threshold": 25}),
        ("flashlight 10, sums", {"score_threshold": 10, "log_add": True}),
        ("flashlight 10, 10 symbols", {"score_threshold": 10, "cutoff_symbols": 10}),
    ),
    "ctc-beam-decoder": (("ctc-beam-decoder", {}),),
    "pyctcdecode": (("pyctcdecode", {}),),
}


@dataclasses.dataclass(frozen=True)
class Cell:
    """What was found for one kind of posteriors and one beam width.

    Attributes:
      case: which.
      ours: our search with the prunings that were best on the dev part, fastest first.
      peers: the others.
      references: what is said.
      scores: by result, of its texts the objective Q with our weights.
    """

    case: str
    ours: Sequence[Result]
    peers: Sequence[Result]
    references: Sequence[str]
    scores: Mapping[int, Sequence[float]]

    def rows(self) -> list[Row]:
        """Returns ours beside each peer: the fastest that makes no more errors than it does.

        And the fastest whose mean Q is no lower either.
        """
        found = []
        for peer in self.peers:
            count, name = len(peer.texts), peer.contender.name
            case = f"{self.case}, at most the errors of {name}"
            ours = self._equals(peer)
            if not ours:
                ours = [min(self.ours, key=lambda r: r.word_error_rate(self.references))]
                case = f"{self.case}, MORE errors than {name}"
            rate = ours[0].word_error_rate(self.references, count)
            rates = rate, peer.word_error_rate(self.references)
            scores = self._mean_score(ours[0], count), self._mean_score(peer, count)
            found += [
                self._speed(case, ours[0], peer),
                Row(case, "word error rate", rates[0], name, rates[1]),
                Row(case, "mean Q", scores[0], name, scores[1]),
            ]
            better = [r for r in ours if self._mean_score(r, count) >= scores[1]]
            if better:
                found.append(self._speed(f"{case}, and no lower mean Q", better[0], peer))
        return found

    def table(self) -> str:
        """Returns all results to read: [weights], and the speedup of the fastest of ours."""
        lines = [
            f"{self.case}: {len(self.references)} utterances",
            f"  {'':<26}{'CPU ms':>9}{'WER %':>8}{'mean Q':>10}{'utterances':>12}  speedup of ours"
            " at no more errors; at no lower Q either",
        ]
        for result in [*self.ours, *self.peers]:
            count, settings = len(result.texts), result.settings
            rate = 100 * result.word_error_rate(self.references)
            line = (
                f"  {_title(result):<26}{result.milliseconds():>9.2f}{rate:>8.2f}"
                f"{self._mean_score(result, count):>10.2f}{count:>12}"
            )
            if not result.contender.is_ours:
                ours = self._equals(result)
                score = self._mean_score(result, count)
                better = [r for r in ours if self._mean_score(r, count) >= score]
                for best in (ours[:1], better[:1]):
                    if best:
                        factor = result.milliseconds() / best[0].milliseconds(count)
                        line += f"  {factor:5.1f} ({_title(best[0])})"
                    else:
                        line += "   none"
            line += f"  [{settings['lm_weight']:.2g}, {settings['word_bonus']:.2g}]"
            lines.append(line)
        return "\n".join(lines)

    def _equals(self, peer: Result) -> list[Result]:
        return decoder_contest.not_worse(peer, self.ours, self.references)

    def _mean_score(self, result: Result, count: int) -> float:
        return statistics.fmean(self.scores[id(result)][:count])

    def _speed(self, case: str, ours: Result, peer: Result) -> Row:
        times = ours.milliseconds(len(peer.texts)), peer.milliseconds()
        name = peer.contender.name
        return Row(case, "CPU ms an utterance", times[0], name, times[1], times[1] / times[0])


@dataclasses.dataclass(frozen=True)
class Effort:
    """How long is measured.

    Attributes:
      passes: through the utterances, taken in turn.
      tuning_seconds: CPU time to tune a contender; slower ones see fewer utterances.
      test_seconds: CPU time of a pass; slower ones decode fewer utterances, once.
    """

    passes: int = 3
    tuning_seconds: float = 30.0
    test_seconds: float = 15.0


def measure(
    dev: Posteriors,
    test: Posteriors,
    model: LanguageModel,
    client: DecoderClient | None,
    *,
    beam_widths: Sequence[int],
    effort: Effort,
) -> Iterator[Cell]:
    """Yields a cell for each beam width; weights are tuned at the narrowest."""
    search = OurSearch(model)
    ours = Contender(OURS, search, "", _TUNED_WITH)
    peers = [
        Contender(name, client, system, settings)
        for system in (client.systems if client else [])
        if client
        for name, settings in _PEERS[system]
    ]
    tuned = {
        contender.name: decoder_contest.tune(
            contender, dev, min(beam_widths), effort.tuning_seconds
        )[0]
        for contender in [ours, *peers]
    }
    for width in beam_widths:
        entries = [(ours, s) for s in _prunings(ours, dev, tuned[OURS], width)]
        entries += [(peer, {**tuned[peer.name], "beam_width": width}) for peer in peers]
        results = decoder_contest.in_turn(entries, test, effort.passes, effort.test_seconds)
        scores = {id(r): _objective(r.texts, test, model, tuned[OURS]) for r in results}
        yield Cell(
            f"{test.name}, beam {width}",
            [r for r in results if r.contender.is_ours],
            [r for r in results if not r.contender.is_ours],
            test.texts,
            scores,
        )


def _prunings(
    ours: Contender, dev: Posteriors, settings: Mapping[str, Any], beam_width: int
) -> list[dict[str, Any]]:
    results = []
    for threshold, cutoff in itertools.product(_THRESHOLDS, _CUTOFFS):
        changed = {
            **settings,
            "beam_width": beam_width,
            "score_threshold": threshold,
            "cutoff_probability": cutoff,
        }
        results.append(decoder_contest.once(ours, dev, changed, len(dev.texts)))
    best = decoder_contest.pareto(results, dev.texts)
    wide = [r for r in results if r.settings == {**r.settings, **_WIDE}]
    return [dict(r.settings) for r in best + [r for r in wide if r not in best]]


def _objective(
    texts: Sequence[str], test: Posteriors, model: LanguageModel, settings: Mapping[str, Any]
) -> list[float]:
    scores = []
    for text, log_probs in zip(texts, test.log_probs, strict=False):
        tokens = model.tokens(text)
        language = settings["lm_weight"] * float(model.score(tokens).sum())
        acoustic = ctc_objective.acoustic_score(log_probs, text, test.alphabet)
        scores.append(acoustic + language + settings["word_bonus"] * len(tokens))
    return scores


def _title(result: Result) -> str:
    if not result.contender.is_ours:
        return result.contender.name
    threshold, cutoff = result.settings["score_threshold"], result.settings["cutoff_probability"]
    return f"{OURS} {threshold:g} nats, p {cutoff:g}"
