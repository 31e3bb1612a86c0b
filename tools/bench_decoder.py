r"""Measure the beam search: against other decoders, with thousands of characters, in long streams.

Cells: posteriors of --dev and --test files (.npz: log_probs_0 [T, V] float32 ..., texts, symbols
with the blank "", seconds_per_frame), and peaky and flat ones simulated for sentences of --text; in
each, weights are tuned on the dev part, alike for all, and then all systems take turns at the test
part. All have the language model's words as their lexicon. One thread; CPU time. The others run in
the environment of --peer_python (`pip install flashlight-text pyctcdecode kenlm
ctc-beam-decoder`, NumPy < 2).

Examples:
  python -m tools.bench_decoder --lm=english.binary --text=english.txt \
      --peer_python=/opt/peers/bin/python --json=decoder.json
  python -m tools.bench_decoder --lm=english.binary --dev=en_dev.npz --test=en_test.npz --names=en
  python -m tools.bench_decoder --character_lm=mandarin.binary --character_text=mandarin.txt
"""

import pathlib

from absl import flags

from ds2_tf.bin import program

_LM = flags.DEFINE_string("lm", "", "KenLM file of words: the lexicon is its vocabulary.")
_TEXT = flags.DEFINE_string("text", "", "English text to simulate posteriors for.")
_DEV = flags.DEFINE_list("dev", [], "Files with posteriors to tune on.")
_TEST = flags.DEFINE_list("test", [], "Files with posteriors to measure, one for each of --dev.")
_NAMES = flags.DEFINE_list("names", [], "What to call them; else by the test file.")
_BEAM_WIDTHS = flags.DEFINE_list("beam_widths", ["100", "500"], "Of the cells.")
_PEER_PYTHON = flags.DEFINE_string("peer_python", "", "A Python with the other decoders.")
_PEERS = flags.DEFINE_list("peers", [], "Some of the other decoders; else all that are there.")
_UTTERANCES = flags.DEFINE_integer("utterances", 60, "Dev and test utterances each, at most.", 3)
_PASSES = flags.DEFINE_integer("passes", 3, "Through the test part.", 1)
_TUNING_SECONDS = flags.DEFINE_float("tuning_seconds", 30.0, "To tune a system.", 0.0)
_TEST_SECONDS = flags.DEFINE_float("test_seconds", 15.0, "Of a pass; slower systems do less.", 0.0)
_CHARACTER_LM = flags.DEFINE_string("character_lm", "", "KenLM file of characters.")
_CHARACTER_TEXT = flags.DEFINE_string("character_text", "", "Text without spaces to simulate.")
_NUM_LABELS = flags.DEFINE_integer("num_labels", 6000, "Of the character mode, with blank.", 2)
_STREAM_SECONDS = flags.DEFINE_float("stream_seconds", 3600, "Of the long stream; 0: none.", 0.0)
_JSON = flags.DEFINE_string("json", "", "File to write the results to.")


def main(arguments: list[str]) -> int:
    """Measures."""
    if arguments:
        raise program.UsageError(f"unexpected argument {arguments[0]!r}")
    if len(_DEV.value) != len(_TEST.value) or len(_NAMES.value) not in (0, len(_TEST.value)):
        raise program.UsageError("--dev, --test and --names must be equally long")
    if bool(_LM.value) != bool(_TEXT.value or _TEST.value):
        raise program.UsageError("--lm needs --text or --test, and they need --lm")
    if bool(_CHARACTER_LM.value) != bool(_CHARACTER_TEXT.value):
        raise program.UsageError("--character_lm and --character_text need each other")
    if not _LM.value and not _CHARACTER_LM.value:
        raise program.UsageError("one of --lm and --character_lm is required")
    try:
        widths = [int(width) for width in _BEAM_WIDTHS.value]
    except ValueError as error:
        raise program.UsageError(f"--beam_widths: {error}") from error
    from ds2_tf.benchmarks import decoder_cells, decoder_costs, decoder_sets, measurement

    rows = []
    if _LM.value:
        names = _NAMES.value or [pathlib.Path(path).stem for path in _TEST.value]
        files = list(zip(names, _DEV.value, _TEST.value, strict=True))
        sets = decoder_sets.DecoderSets(_LM.value, _UTTERANCES.value, _TEXT.value, files)
        effort = decoder_cells.Effort(_PASSES.value, _TUNING_SECONDS.value, _TEST_SECONDS.value)
        for cell in sets.measure(_PEER_PYTHON.value, _PEERS.value, widths, effort):
            print(cell.table(), flush=True)
            rows += cell.rows()
        rows += decoder_costs.threads(sets, max(widths), _PASSES.value)
        if _STREAM_SECONDS.value:
            rows += decoder_costs.stream(sets, max(widths), _STREAM_SECONDS.value)
    if _CHARACTER_LM.value:
        rows += decoder_costs.characters(
            _CHARACTER_LM.value,
            pathlib.Path(_CHARACTER_TEXT.value).read_text(encoding="utf-8"),
            _NUM_LABELS.value,
            _UTTERANCES.value,
            _TEST_SECONDS.value,
        )
    print(measurement.table(rows))
    if _JSON.value:
        measurement.save_rows(rows, _JSON.value)
    return 0


if __name__ == "__main__":
    program.run(main)
