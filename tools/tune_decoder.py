r"""Tune beam search to a model and a language model, and write what is best into the workdir.

Needs recordings that the model was not trained with (its dev set). What the model hears is kept,
so that each trial only decodes. First the two weights: all pairs of a grid, then a simplex around
the best of them. Then beam width and score threshold: of all that make hardly more errors than the
best, the fastest is taken. Last, the confidence of words is calibrated. Stopped, it goes on there.

Writes WORKDIR/decoder.json, which `ds2 transcribe`, `evaluate` and `listen` follow from then on,
and WORKDIR/tuning/: heat_map.png, frontier.png, frontier.md, reliability.png, trials.jsonl.

Examples:
  python -m tools.tune_decoder --workdir=runs/english --manifest=dev.jsonl --lm=english.binary
  python -m tools.tune_decoder --workdir=runs/english --manifest=dev.jsonl --lm=english.binary \
    --unseen_manifest=test.jsonl --threads=8
  python -m tools.tune_decoder --workdir=runs/zh --manifest=dev.jsonl --lm=zh.binary \
    --lm_weights=0.5,1,2,4 --word_bonuses=0,2,4,6,8
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from absl import flags

from ds2_tf.bin import program

Number = TypeVar("Number", int, float)

_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the trained model.", required=True)
_MANIFEST = flags.DEFINE_string(
    "manifest", None, "A manifest to tune with, or several separated by commas.", required=True
)
_LM = flags.DEFINE_string("lm", None, "The language model's file.", required=True)
_UNSEEN = flags.DEFINE_string(
    "unseen_manifest", None, "Recordings of other speakers, to measure the confidence with."
)
_BEAM_WIDTH = flags.DEFINE_integer(
    "beam_width", 64, "While the weights are looked for.", lower_bound=1
)
_LM_WEIGHTS = flags.DEFINE_list("lm_weights", None, "The grid's weights of the language model.")
_WORD_BONUSES = flags.DEFINE_list("word_bonuses", None, "The grid's bonuses for a word.")
_BEAM_WIDTHS = flags.DEFINE_list("beam_widths", None, "The frontier's.")
_SCORE_THRESHOLDS = flags.DEFINE_list("score_thresholds", None, "The frontier's.")
_CACHE = flags.DEFINE_string("cache", None, "Folder for the files but decoder.json.")
_THREADS = flags.DEFINE_integer("threads", 1, "Utterances decoded at once.", lower_bound=1)


def main(arguments: list[str]) -> None:
    """Tunes."""
    if arguments:
        raise program.UsageError(f"unexpected argument {arguments[0]!r}; lists have no blanks")
    program.load_tensorflow()
    from ds2_tf import manifest
    from ds2_tf.decoding import tuning_run
    from ds2_tf.decoding.beam_options import BeamSearchOptions

    try:
        grids = tuning_run.Grids(
            lm_weights=_numbers(_LM_WEIGHTS, float, tuning_run.Grids.lm_weights),
            word_bonuses=_numbers(_WORD_BONUSES, float, tuning_run.Grids.word_bonuses),
            beam_widths=_numbers(_BEAM_WIDTHS, int, tuning_run.Grids.beam_widths),
            score_thresholds=_numbers(_SCORE_THRESHOLDS, float, tuning_run.Grids.score_thresholds),
        )
    except ValueError as error:
        raise program.UsageError(f"grid: {error}") from error
    result = tuning_run.tune(
        _WORKDIR.value,
        manifest.read(_MANIFEST.value),
        _LM.value,
        manifest.read(_UNSEEN.value) if _UNSEEN.value else (),
        start=BeamSearchOptions(beam_width=_BEAM_WIDTH.value),
        grids=grids,
        cache=_CACHE.value,
        num_threads=_THREADS.value,
    )
    print(tuning_run.report(result), end="")
    print(f"\nwritten: {_WORKDIR.value}/decoder.json")


def _numbers(
    flag: flags.FlagHolder, number: Callable[[str], Number], default: Sequence[Number]
) -> Sequence[Number]:
    try:
        return default if flag.value is None else tuple(map(number, flag.value))
    except ValueError as error:
        raise program.UsageError(f"--{flag.name} must be numbers ({error})") from error


if __name__ == "__main__":
    program.run(main)
