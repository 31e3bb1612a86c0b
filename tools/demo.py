"""From a clean clone to recognised speech: train a small Deep Speech 2 on spoken digits and use it.

Checks the recordings in tests/data/digits, trains on five speakers from random weights, evaluates
on recordings that were held out and on a speaker never heard, transcribes some of them, exports a
SavedModel and transcribes once more from that with TensorFlow alone. A few minutes on two CPU
cores. Stopped and started again, it goes on where it was.

Examples:
  python -m tools.demo
  python -m tools.demo --workdir=/tmp/digits --seed=1
"""

import json
import pathlib
import subprocess
import sys
import time

from absl import flags, logging

from ds2_tf import atomic
from ds2_tf.bin import program
from ds2_tf.errors import UserError

_WORKDIR = flags.DEFINE_string("workdir", "runs/demo", "Folder for all that the demo makes.")
_SEED = flags.DEFINE_integer("seed", 0, "Of weights, order, dropout and augmentation.")

UNSEEN_SPEAKER = "theo"
SHOWN = 8
_CLONE = pathlib.Path(__file__).parents[1]


def main(arguments: list[str]) -> int:
    """Runs the whole path."""
    start = time.monotonic()
    if arguments:
        raise program.UsageError(f"unexpected argument {arguments[0]!r}")
    program.load_tensorflow()
    from configs import digits
    from ds2_tf import config, data_check, data_report, evaluate, manifest, train
    from ds2_tf.acoustic_model import AcousticModel
    from ds2_tf.corpora import digit_strings
    from export import saved_model

    logging.set_verbosity(logging.INFO)
    workdir = pathlib.Path(_WORKDIR.value)

    _heading(1, "the data")
    recordings = digit_strings.read(_CLONE / "tests" / "data" / "digits" / "recordings")
    manifests = digit_strings.write_manifests(recordings, UNSEEN_SPEAKER, workdir / "data")
    run_values = digits.get_config()
    run_values.training.seed = _SEED.value
    run_values.data.train = str(manifests["train"])
    run_values.data.dev = str(manifests["dev"])
    run = config.resolve(run_values)
    alphabet = config.make_alphabet(run.alphabet, [])
    utterances = {name: manifest.read(path) for name, path in manifests.items()}
    rows = [utterance for split in utterances.values() for utterance in split]
    findings = data_check.check(rows, alphabet, run.features, run.model.time_stride, run.data.allow)
    print(data_report.table(findings, rows))

    _heading(2, f"training on {len(utterances['train'])} strings of digits")
    train.train(run, workdir)

    logging.set_verbosity(logging.WARNING)

    _heading(3, "evaluation")
    model = AcousticModel.load(workdir)
    results = {}
    for split, title in (
        ("test_known", "held-out recordings of the speakers heard in training"),
        ("test_unseen", f"{UNSEEN_SPEAKER}, a speaker never heard"),
    ):
        results[split] = evaluate.evaluate(model, utterances[split])
        results[split].save_json(workdir / f"{split}.json")
        print(f"\n--- {title}\n{evaluate.report(results[split])}")

    _heading(4, "some transcripts")
    longest = sorted(results["test_unseen"].utterances, key=lambda r: -len(r.reference))
    for result in longest[:: max(1, len(longest) // SHOWN)][:SHOWN]:
        print(f"reference  {result.reference}\nrecognised {result.hypothesis}\n")

    _heading(5, "export to a SavedModel, used by a process that imports only TensorFlow")
    exported = workdir / "saved_model"
    saved_model.export(model, exported, overwrite=True)
    wavs = digit_strings.write_wavs(
        utterances["test_known"][-SHOWN:], run.features.sample_rate_hz, workdir / "wavs"
    )
    script = _CLONE / "tools" / "transcribe_saved_model.py"
    client = subprocess.run(
        [sys.executable, str(script), str(exported), *map(str, wavs)],
        capture_output=True,
        text=True,
        check=False,
    )
    if client.returncode:
        raise UserError(f"{exported}: the export does not run: {client.stderr.strip()}")
    for line in client.stdout.splitlines():
        name, _, text = line.partition("\t")
        print(f"{pathlib.Path(name).stem:<45} {text}")

    known, unseen = results["test_known"].word.rate, results["test_unseen"].word.rate
    seconds = time.monotonic() - start
    summary = {"wer_known_speakers": known, "wer_unseen_speaker": unseen, "seconds": seconds}
    with atomic.open_for_write(workdir / "results.json") as file:
        json.dump(summary, file, indent=2)
    _heading(6, "summary")
    print(f"word error rate  {known:.1%} known speakers, {unseen:.1%} unseen speaker")
    print(f"time             {seconds / 60:.1f} minutes")
    for name, meaning in (
        ("results.json", "these figures"),
        ("best/weights.npz", "the model, with config.json, alphabet.json, normalization.npz"),
        ("saved_model", "the export for TensorFlow Serving"),
        ("learning_curve.png", "loss and error rates; more in tensorboard/"),
        ("test_known.json", "every transcript with its reference; also test_unseen.json"),
        ("data", "the manifests"),
    ):
        print(f"{workdir / name}: {meaning}")
    print(f"try: ds2 transcribe --workdir={workdir} {wavs[0]}")
    return 0


def _heading(number: int, text: str) -> None:
    print(f"\n=== {number}/6 {text}", flush=True)


if __name__ == "__main__":
    program.run(main)
