"""Finds the weights with which beam search makes the fewest errors on a held-out set.

Source: Deep Speech 2, section 3.8: alpha and beta are tuned on a development set.
"""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import statistics
import time
from collections.abc import Iterable, Sequence

import numpy as np
import scipy.optimize
from tqdm import tqdm

from ds2_tf import metrics
from ds2_tf.alphabet import Alphabet
from ds2_tf.decoding.beam_search import BeamSearchDecoder, BeamSearchOptions, Hypothesis
from ds2_tf.decoding.language_model import LanguageModel
from ds2_tf.posteriors import Posteriors

LM_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
WORD_BONUSES = (-1.0, 0.0, 1.0, 2.0, 3.0)
BEAM_WIDTHS = (8, 16, 32, 64, 128, 256, 512)
SCORE_THRESHOLDS = (5.0, 10.0, 20.0)

_REFINEMENTS = 20
_NARROWEST = 32
# Breaks ties between equal word error rates.
_TIE = 1e-3


@dataclasses.dataclass(frozen=True)
class Trial:
    """One setting and what came of it: error rates, and CPU time an utterance (the median)."""

    options: BeamSearchOptions
    word_error_rate: float
    character_error_rate: float
    milliseconds: float

    def loss(self, spaced: bool) -> float:
        """What is minimised: the word error rate, of Mandarin the character error rate."""
        if not spaced:
            return self.character_error_rate
        return self.word_error_rate + _TIE * self.character_error_rate


class Tuner:
    """Tries settings on one set of utterances; what was tried before is not tried again."""

    def __init__(
        self,
        alphabet: Alphabet,
        posteriors: Posteriors,
        language_model: LanguageModel | None,
        log: str | os.PathLike,
        num_threads: int = 1,
    ) -> None:
        """Makes a tuner.

        Args:
          alphabet: of the posteriors' labels.
          posteriors: of the held-out set.
          language_model: or None.
          log: a file of JSON lines, to which each trial is added. Those that it holds for the same
            posteriors and language model count as tried.
          num_threads: utterances decoded at once; CPU times are those of each alone.
        """
        self._alphabet = alphabet
        self._posteriors = posteriors
        self._language_model = language_model
        self._log = pathlib.Path(log)
        self._num_threads = num_threads
        name = language_model.info.sha256 or language_model.path if language_model else ""
        self._key = f"{posteriors.digest} {name}"
        self._tried = {trial.options: trial for trial in self._read_log()}

    @property
    def spaced(self) -> bool:
        """Whether words are counted, or characters."""
        return self._alphabet.spaced

    def decode(self, options: BeamSearchOptions) -> Iterable[tuple[list[Hypothesis], float]]:
        """Yields the hypotheses of each utterance and the CPU seconds that they took."""
        decoder = BeamSearchDecoder(self._alphabet, options, self._language_model)

        def decode_one(log_probs: np.ndarray) -> tuple[list[Hypothesis], float]:
            start = time.thread_time()
            stream = decoder.stream()
            stream.step(log_probs)
            return stream.hypotheses(), time.thread_time() - start

        with concurrent.futures.ThreadPoolExecutor(self._num_threads) as pool:
            yield from pool.map(decode_one, self._posteriors.log_probs)

    def try_options(self, options: BeamSearchOptions) -> Trial:
        """Decodes everything with the options, unless that was done before."""
        if options in self._tried:
            return self._tried[options]
        texts, seconds = [], []
        for hypotheses, cpu_seconds in self.decode(options):
            texts.append(hypotheses[0].text)
            seconds.append(cpu_seconds)
        pairs = list(zip(self._posteriors.references, texts, strict=True))
        words = metrics.total(metrics.word_errors(*pair) for pair in pairs)
        characters = metrics.total(
            metrics.character_errors(*pair, count_spaces=self.spaced) for pair in pairs
        )
        trial = Trial(options, words.rate, characters.rate, 1e3 * statistics.median(seconds))
        self._tried[options] = trial
        row = {"key": self._key, **dataclasses.asdict(trial)}
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with open(self._log, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        return trial

    def best(self, trials: Iterable[Trial]) -> Trial:
        """Returns the best trial; of equal ones that in their middle, far from other rates."""
        trials = list(trials)
        least = min(trial.loss(self.spaced) for trial in trials)
        equal = [trial for trial in trials if trial.loss(self.spaced) == least]
        weights = np.array([(t.options.lm_weight, t.options.word_bonus) for t in equal])
        distances = np.square(weights - weights.mean(axis=0)).sum(axis=1)
        return equal[int(np.argmin(distances))]

    def grid(
        self,
        options: BeamSearchOptions,
        lm_weights: Sequence[float] = LM_WEIGHTS,
        word_bonuses: Sequence[float] = WORD_BONUSES,
        progress: bool = True,
    ) -> list[Trial]:
        """Tries all pairs of weights."""
        pairs = [(weight, bonus) for weight in lm_weights for bonus in word_bonuses]
        return [
            self.try_options(dataclasses.replace(options, lm_weight=weight, word_bonus=bonus))
            for weight, bonus in tqdm(pairs, "grid", unit="pair", disable=not progress)
        ]

    def refine(
        self,
        start: BeamSearchOptions,
        steps: tuple[float, float] = (0.2, 0.5),
        progress: bool = True,
    ) -> list[Trial]:
        """Tries pairs of weights ever nearer to the best one (Nelder and Mead's simplex).

        Args:
          start: where it begins.
          steps: how far the first trials lie from there, in the two weights.
          progress: whether to show a bar.
        """
        trials: list[Trial] = []
        with tqdm(total=_REFINEMENTS, desc="refining", unit="pair", disable=not progress) as bar:

            def loss(point: np.ndarray) -> float:
                weight, bonus = (round(float(value), 3) for value in point)
                options = dataclasses.replace(start, lm_weight=max(weight, 0.0), word_bonus=bonus)
                trials.append(self.try_options(options))
                bar.update()
                return trials[-1].loss(self.spaced)

            first = np.array([start.lm_weight, start.word_bonus])
            simplex = first + np.array([[0, 0], [steps[0], 0], [0, steps[1]]])
            scipy.optimize.minimize(
                loss,
                first,
                method="Nelder-Mead",
                options={"initial_simplex": simplex, "maxfev": _REFINEMENTS, "xatol": 0.01},
            )
        return trials

    def frontier(
        self,
        options: BeamSearchOptions,
        beam_widths: Sequence[int] = BEAM_WIDTHS,
        score_thresholds: Sequence[float] = SCORE_THRESHOLDS,
        progress: bool = True,
    ) -> list[Trial]:
        """Tries all pairs of beam width and score threshold."""
        pairs = [(width, threshold) for threshold in score_thresholds for width in beam_widths]
        return [
            self.try_options(
                dataclasses.replace(options, beam_width=width, score_threshold=threshold)
            )
            for width, threshold in tqdm(pairs, "frontier", unit="pair", disable=not progress)
        ]

    def cheapest(self, trials: Sequence[Trial], tolerance: float = 0.01) -> Trial:
        """Returns the trial of the narrowest beam whose error rate is nearly the lowest.

        Of equal widths the largest score threshold, which the beam then bounds. The times decide
        nothing: they differ from run to run.

        Args:
          trials: some.
          tolerance: the share by which it may be above the lowest.
        """
        limit = (1 + tolerance) * self.best(trials).loss(self.spaced)
        good = [trial for trial in trials if trial.loss(self.spaced) <= limit]
        # Narrower beams are hardly faster, and easily too narrow for other recordings.
        wide = [trial for trial in good if trial.options.beam_width >= _NARROWEST]
        return min(wide or good, key=lambda t: (t.options.beam_width, -t.options.score_threshold))

    def _read_log(self) -> Iterable[Trial]:
        if not self._log.exists():
            return
        for line in self._log.read_text("utf-8").splitlines():
            try:
                row = json.loads(line)
                if row.pop("key") == self._key:
                    row["options"] = BeamSearchOptions(**_tuples(row["options"]))
                    yield Trial(**row)
            except (ValueError, TypeError, KeyError):
                continue  # A line that was cut short, or another version's: tried again.


def _tuples(options: dict) -> dict:
    """Turns JSON's lists back into tuples."""
    return {key: tuple(v) if isinstance(v, list) else v for key, v in options.items()}


def table(trials: Sequence[Trial], spaced: bool) -> str:
    """Returns a Markdown table of error rate and time over beam width and score threshold."""
    rate = "word error rate" if spaced else "character error rate"
    lines = [f"| beam width | score threshold | {rate} | ms an utterance |", "|---|---|---|---|"]
    for trial in trials:
        error = trial.word_error_rate if spaced else trial.character_error_rate
        lines.append(
            f"| {trial.options.beam_width} | {trial.options.score_threshold:g} "
            f"| {error:.2%} | {trial.milliseconds:.2f} |"
        )
    return "\n".join(lines)
