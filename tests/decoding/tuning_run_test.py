import dataclasses
import json
import shutil
import subprocess
import sys

import pytest

from ds2_tf import audio, manifest, posteriors
from ds2_tf.acoustic_model import AcousticModel
from ds2_tf.decoding import calibration, settings, tuning_run
from ds2_tf.decoding.beam_options import BeamSearchOptions
from ds2_tf.decoding.tuning_run import Grids
from ds2_tf.evaluate import evaluate
from tests.decoding.beams import need_beam_search, write_arpa

GRIDS = Grids((0.0, 0.5), (0.0, 2.0), (4, 16), (10.0,))
START = BeamSearchOptions(beam_width=8)


@pytest.fixture(scope="module")
def run(tiny_workdir, digits_folder, tmp_path_factory):
    """A model of random weights, a language model and two manifests whose transcripts it says."""
    need_beam_search()
    folder = tmp_path_factory.mktemp("tuning") / "run"
    shutil.copytree(tiny_workdir, folder)
    paths = sorted(digits_folder.rglob("*.flac"))[:12]
    utterances = [
        manifest.Utterance((str(path),), len(audio.load(path, 8000)) / 8000, "x") for path in paths
    ]
    heard = evaluate(AcousticModel.load(folder), utterances, progress=False).utterances
    utterances = [
        dataclasses.replace(utterance, transcript=f"{found.hypothesis} so")
        for utterance, found in zip(utterances, heard, strict=True)
    ]
    manifest.write(folder / "dev.jsonl", utterances[:8])
    manifest.write(folder / "test.jsonl", utterances[8:])
    write_arpa(folder / "lm.arpa", ["so", *heard[0].hypothesis.split()])
    return folder


@pytest.fixture(scope="module")
def result(run):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibration, "FEWEST", 1)
        return tuning_run.tune(
            run,
            manifest.read(run / "dev.jsonl"),
            run / "lm.arpa",
            manifest.read(run / "test.jsonl"),
            start=START,
            grids=GRIDS,
            num_threads=2,
            progress=False,
        )


def test_writes_the_best_into_the_workdir(run, result):
    found = settings.load(run)
    assert found == result.settings
    assert json.loads((run / "decoder.json").read_text())["language_model"]["path"] == "lm.arpa"
    assert found.decoder == "beam"
    assert dataclasses.replace(found.options, confidence=None) == result.best.options
    assert found.options.beam_width in (4, 16)
    assert [len(found.options.confidence), found.tuning["num_utterances"]] == [3, 8]
    assert found.tuning["beam"]["word_error_rate"] == result.best.word_error_rate


def test_evaluation_has_the_error_rates_that_tuning_measured(run, result):
    model = AcousticModel.load(run)
    utterances = manifest.read(run / "dev.jsonl")
    found = evaluate(model, utterances, progress=False)
    assert (found.word.rate, found.character.rate) == result.greedy
    decoder = result.settings.make(model.alphabet, model.seconds_per_frame)
    found = evaluate(model, utterances, progress=False, decoder=decoder)
    rates = (found.word.rate, found.character.rate)
    assert rates == (result.best.word_error_rate, result.best.character_error_rate)


def test_confidence_is_fitted_and_measured_on_others(result):
    assert list(result.reliability) == [
        "tuned on, mass times probability",
        "tuned on, calibrated",
        "unseen, mass times probability",
        "unseen, calibrated",
    ]
    before, after = (
        result.reliability[name].expected_error for name in list(result.reliability)[:2]
    )
    assert after < before
    assert result.reliability["unseen, calibrated"].counts.sum() > 0


def test_leaves_tables_and_pictures(run, result):
    folder = run / "tuning"
    for name in ("heat_map", "frontier", "reliability"):
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    table = (folder / "frontier.md").read_text()
    assert len(table.splitlines()) == 4
    page = tuning_run.report(result)
    assert table in page
    assert page.startswith(f"{'':<14}{'WER':>10}{'CER':>10}\n")


def test_a_finished_tuning_is_not_done_again(run, result, monkeypatch):
    trials = (run / "tuning" / "trials.jsonl").read_text()

    def hear(*_):
        raise AssertionError("heard again")

    monkeypatch.setattr(posteriors, "_hear", hear)
    again = tuning_run.tune(
        run,
        manifest.read(run / "dev.jsonl"),
        run / "lm.arpa",
        start=START,
        grids=GRIDS,
        progress=False,
    )
    assert (run / "tuning" / "trials.jsonl").read_text() == trials
    assert (again.best, again.frontier) == (result.best, result.frontier)


def tune(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "tools.tune_decoder", *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def test_the_program_goes_on_where_the_function_was(run, result):
    trials = (run / "tuning" / "trials.jsonl").read_text()
    (run / "decoder.json").unlink()
    done = tune(
        f"--workdir={run}",
        f"--manifest={run}/dev.jsonl",
        f"--lm={run}/lm.arpa",
        f"--unseen_manifest={run}/test.jsonl",
        "--beam_width=8",
        "--lm_weights=0,0.5",
        "--word_bonuses=0,2",
        "--beam_widths=4,16",
        "--score_thresholds=10",
    )
    assert done.returncode == 0, done.stderr
    # A program needs more wrong words than the eight utterances have.
    assert "the confidence is not calibrated: that takes 30 wrong words" in done.stderr
    page = [line for line in tuning_run.report(result).splitlines() if "calibrated" not in line]
    assert done.stdout.splitlines() == [*page, "", f"written: {run}/decoder.json"]
    options = dataclasses.replace(result.settings.options, confidence=None)
    assert settings.load(run).options == options
    assert (run / "tuning" / "trials.jsonl").read_text() == trials


@pytest.mark.parametrize(
    ("argument", "status", "message"),
    [
        (
            "--lm_weights=a",
            2,
            "--lm_weights must be numbers (could not convert string to float: 'a'); see --help",
        ),
        ("--beam_widths=0", 2, "grid: beam_width must be >= 1. Received: 0; see --help"),
        (
            "--lm=/nowhere/lm.arpa",
            1,
            "/nowhere/lm.arpa: there is no such file; name a language model's file",
        ),
    ],
)
def test_what_cannot_be_tuned(run, argument, status, message):
    arguments = {"--lm": run / "lm.arpa", "--manifest": run / "dev.jsonl", "--workdir": run}
    done = tune(*(f"{name}={value}" for name, value in arguments.items()), argument)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.splitlines()[-1] == f"error: {message}"
