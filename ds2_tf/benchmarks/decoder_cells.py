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
_THRESHOLDS = (3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 14.0, 20.0, 25.0)
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
      scores: of each contender's texts, the mean of the objective with our weights.
    """

    case: str
    ours: Sequence[Result]
    peers: Sequence[Result]
    references: Sequence[str]
    scores: Mapping[int, float]

    def rows(self) -> list[Row]:
        """Returns ours beside each peer: the fastest that makes no more errors than it does."""
        found = []
        for peer in self.peers:
            count, name = len(peer.texts), peer.contender.name
            case = f"{self.case}, at most the errors of {name}"
            ours = decoder_contest.best_against(peer, self.ours, self.references)
            if ours is None:
                ours = min(self.ours, key=lambda r: r.word_error_rate(self.references))
                case = f"{self.case}, MORE errors than {name}"
            times = ours.milliseconds(count), peer.milliseconds()
            found += [
                Row(case, "CPU ms an utterance", times[0], name, times[1], times[1] / times[0]),
                Row(
                    case,
                    "word error rate",
                    ours.word_error_rate(self.references, count),
                    name,
                    peer.word_error_rate(self.references),
                ),
            ]
            if count == len(self.references):
                mean = self.scores[id(ours)]
                found.append(Row(case, "mean Q", mean, name, self.scores[id(peer)]))
        return found

    def table(self) -> str:
        """Returns all results to read."""
        lines = [
            f"{self.case}: {len(self.references)} utterances",
            f"  {'':<28}{'CPU ms':>9}{'WER %':>8}{'mean Q':>10}{'utterances':>12}  speedup of ours",
        ]
        for result in [*self.ours, *self.peers]:
            rate = 100 * result.word_error_rate(self.references)
            line = (
                f"  {_title(result):<28}{result.milliseconds():>9.2f}{rate:>8.2f}"
                f"{self.scores[id(result)]:>10.2f}{len(result.texts):>12}"
            )
            if not result.contender.is_ours:
                ours = decoder_contest.best_against(result, self.ours, self.references)
                if ours is None:
                    line += "   more errors"
                else:
                    factor = result.milliseconds() / ours.milliseconds(len(result.texts))
                    line += f"   {factor:.1f} ({_title(ours)})"
            settings = result.settings
            line += f"   [{settings['lm_weight']:.2g}, {settings['word_bonus']:.2g}]"
            lines.append(line)
        return "\n".join(lines)


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
        scores = {id(r): _mean_objective(r.texts, test, model, tuned[OURS]) for r in results}
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


def _mean_objective(
    texts: Sequence[str], test: Posteriors, model: LanguageModel, settings: Mapping[str, Any]
) -> float:
    scores = []
    for text, log_probs in zip(texts, test.log_probs, strict=False):
        tokens = model.tokens(text)
        language = settings["lm_weight"] * float(model.score(tokens).sum())
        acoustic = ctc_objective.acoustic_score(log_probs, text, test.alphabet)
        scores.append(acoustic + language + settings["word_bonus"] * len(tokens))
    return statistics.fmean(scores)


def _title(result: Result) -> str:
    if not result.contender.is_ours:
        return result.contender.name
    threshold, cutoff = result.settings["score_threshold"], result.settings["cutoff_probability"]
    return f"ours {threshold:g} nats, p {cutoff:g}"
