"""A tuning from start to end: weights, pruning, confidence, decoder.json."""

import dataclasses
import os
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from absl import logging

from ds2_tf import atomic, metrics, posteriors
from ds2_tf.alphabet import Alphabet
from ds2_tf.decoding import calibration, confidence, tuning, tuning_plots
from ds2_tf.decoding.beam_options import BeamSearchOptions
from ds2_tf.decoding.greedy_stream import GreedyDecoder
from ds2_tf.decoding.language_model import LanguageModel
from ds2_tf.decoding.settings import DecoderSettings
from ds2_tf.manifest import Utterance
from ds2_tf.posteriors import Posteriors
from ds2_tf.transcript import Transcript

FOLDER = "tuning"
_START = BeamSearchOptions(beam_width=64)
# Times and confidences are not asked for: any will do.
_SECONDS_PER_FRAME = 0.02


@dataclasses.dataclass(frozen=True)
class Grids:
    """What is tried: all pairs of the first two, then all pairs of the last two.

    Raises:
      ValueError: for an empty grid, or a value that is no option.
    """

    lm_weights: Sequence[float] = tuning.LM_WEIGHTS
    word_bonuses: Sequence[float] = tuning.WORD_BONUSES
    beam_widths: Sequence[int] = tuning.BEAM_WIDTHS
    score_thresholds: Sequence[float] = tuning.SCORE_THRESHOLDS

    def __post_init__(self) -> None:
        for name, values in dataclasses.asdict(self).items():
            if not values:
                raise ValueError(f"{name} must not be empty")
        for weight in self.lm_weights:
            BeamSearchOptions(lm_weight=weight)
        for bonus in self.word_bonuses:
            BeamSearchOptions(word_bonus=bonus)
        for width in self.beam_widths:
            BeamSearchOptions(beam_width=width)
        for threshold in self.score_thresholds:
            BeamSearchOptions(score_threshold=threshold)


_GRIDS = Grids()


class Result(NamedTuple):
    """What a tuning found.

    Attributes:
      settings: what decoder.json holds now.
      greedy: (word, character) error rate without search.
      best: the trial whose options were taken.
      frontier: trials over beam width and score threshold.
      reliability: of the confidence, by name.
      spaced: whether words are counted, or characters.
    """

    settings: DecoderSettings
    greedy: tuple[float, float]
    best: tuning.Trial
    frontier: list[tuning.Trial]
    reliability: dict[str, calibration.Reliability]
    spaced: bool


def tune(
    workdir: str | os.PathLike,
    utterances: Sequence[Utterance],
    language_model: str | os.PathLike,
    unseen: Sequence[Utterance] = (),
    *,
    start: BeamSearchOptions = _START,
    grids: Grids = _GRIDS,
    cache: str | os.PathLike | None = None,
    num_threads: int = 1,
    progress: bool = True,
) -> Result:
    """Finds the best options for a model and a language model, and writes decoder.json.

    Where it was stopped it goes on. Nothing in it is random: the same data give the same options.

    Args:
      workdir: of the trained model.
      utterances: to tune with, which the model has not been trained with.
      language_model: its file.
      unseen: utterances of other speakers, on which the confidence is measured.
      start: the options that are kept, and the pruning while the weights are looked for.
      grids: what is tried.
      cache: for log-probabilities, trials and pictures; by default the workdir's folder "tuning".
      num_threads: utterances decoded at once.
      progress: whether to show bars.

    Raises:
      UserError: when the model, the language model or a recording cannot be read.
    """
    folder = pathlib.Path(cache or pathlib.Path(workdir, FOLDER))
    alphabet = Alphabet.load(pathlib.Path(workdir, "alphabet.json"))
    model = LanguageModel.load(language_model, alphabet)
    heard = posteriors.of_manifest(workdir, utterances, folder, progress)
    tuner = tuning.Tuner(alphabet, heard, model, folder / "trials.jsonl", num_threads)

    trials = tuner.grid(start, grids.lm_weights, grids.word_bonuses, progress)
    trials += tuner.refine(tuner.best(trials).options, progress=progress)
    tuning_plots.heat_map(trials, tuner.spaced, folder / "heat_map.png")

    frontier = tuner.frontier(
        tuner.best(trials).options, grids.beam_widths, grids.score_thresholds, progress
    )
    tuning_plots.frontier(frontier, tuner.spaced, folder / "frontier.png")
    with atomic.open_for_write(folder / "frontier.md") as file:
        file.write(tuning.table(frontier, tuner.spaced) + "\n")
    best = tuner.cheapest(frontier)

    judged = {"tuned on": _judge(tuner, heard, best.options)}
    if unseen:
        others = posteriors.of_manifest(workdir, unseen, folder, progress)
        unseen_tuner = tuning.Tuner(alphabet, others, model, os.devnull, num_threads)
        judged["unseen"] = _judge(unseen_tuner, others, best.options)
    weights = calibration.fit(*judged["tuned on"])
    if weights is None:
        logging.warning(
            "the confidence is not calibrated: that takes %d wrong words and as many right ones",
            calibration.FEWEST,
        )
    reliability = _reliability(judged, weights)
    tuning_plots.reliability(reliability, folder / "reliability.png")

    greedy = _greedy_rates(alphabet, heard)
    found = DecoderSettings(
        "beam",
        dataclasses.replace(best.options, confidence=weights),
        tuning=_summary(utterances, heard, greedy, best, reliability),
    ).with_language_model(language_model)
    found.save(workdir)
    return Result(found, greedy, best, frontier, reliability, tuner.spaced)


def report(result: Result) -> str:
    """Returns a page: error rates before and after, the frontier, the confidence."""
    options, best = result.settings.options, result.best
    lines = [
        f"{'':<14}{'WER':>10}{'CER':>10}",
        f"{'greedy':<14}{result.greedy[0]:>10.2%}{result.greedy[1]:>10.2%}",
        f"{'beam search':<14}{best.word_error_rate:>10.2%}{best.character_error_rate:>10.2%}",
        "",
        f"lm_weight {options.lm_weight:g}, word_bonus {options.word_bonus:g}, beam_width "
        f"{options.beam_width}, score_threshold {options.score_threshold:g}: "
        f"{best.milliseconds:.2f} ms of CPU time an utterance",
        "",
        tuning.table(result.frontier, result.spaced),
        "",
        "expected calibration error of the confidence",
        *(f"  {name}: {found.expected_error:.3f}" for name, found in result.reliability.items()),
    ]
    return "\n".join(lines) + "\n"


class _Judged(NamedTuple):
    """(mass, acoustic) of words, and whether each is right."""

    words: list[tuple[float, float]]
    is_right: list[bool]


def _judge(tuner: tuning.Tuner, heard: Posteriors, options: BeamSearchOptions) -> _Judged:
    judged = _Judged([], [])
    for reference, (hypotheses, _) in zip(heard.references, tuner.decode(options), strict=True):
        judged.words.extend((word.mass, word.acoustic) for word in hypotheses[0].evidence)
        judged.is_right.extend(calibration.judge(reference, hypotheses[0]))
    return judged


def _reliability(
    judged: dict[str, _Judged], weights: confidence.Weights | None
) -> dict[str, calibration.Reliability]:
    return {
        f"{name}, {kind}": calibration.reliability(
            [confidence.of_word(*word, used) for word in found.words], found.is_right
        )
        for name, found in judged.items()
        for kind, used in (("mass times probability", None), ("calibrated", weights))
        if kind != "calibrated" or used is not None
    }


def _greedy_rates(alphabet: Alphabet, heard: Posteriors) -> tuple[float, float]:
    decoder = GreedyDecoder(alphabet, _SECONDS_PER_FRAME)
    texts = []
    for log_probs in heard.log_probs:
        stream = decoder.stream()
        stream.step(log_probs)
        texts.append(Transcript.of(stream.finish(), alphabet, 0.0).text)
    pairs = list(zip(heard.references, texts, strict=True))
    words = metrics.total(metrics.word_errors(*pair) for pair in pairs)
    characters = metrics.total(
        metrics.character_errors(*pair, count_spaces=alphabet.spaced) for pair in pairs
    )
    return words.rate, characters.rate


def _summary(
    utterances: Sequence[Utterance],
    heard: Posteriors,
    greedy: tuple[float, float],
    best: tuning.Trial,
    reliability: dict[str, calibration.Reliability],
) -> dict[str, Any]:
    return {
        "manifests": sorted({utterance.manifest for utterance in utterances}),
        "num_utterances": len(utterances),
        "posteriors": heard.digest,
        "greedy": {"word_error_rate": greedy[0], "character_error_rate": greedy[1]},
        "beam": {
            "word_error_rate": best.word_error_rate,
            "character_error_rate": best.character_error_rate,
            "milliseconds": best.milliseconds,
        },
        "expected_calibration_error": {
            name: found.expected_error for name, found in reliability.items()
        },
    }
