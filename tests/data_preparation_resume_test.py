"""A run that goes on, that begins anew, or that several workers share."""

import dataclasses
import json

import numpy as np
import pytest

from ds2_tf import config, data_preparation, manifest
from ds2_tf.errors import UserError
from tests.prepared_runs import noise_manifest, prepare, settings


@pytest.mark.parametrize(
    ("section", "values", "difference"),
    [
        ("model", {"rnn_units": 8}, "model.rnn_units: 512, 8"),
        ("training", {"seed": 1}, "training.seed: 0, 1"),
        ("batches", {"batch_size": 4}, "batches.batch_size: 16, 4"),
        ("schedule", {"anneal": 1.5}, "schedule.anneal: 1.2, 1.5"),
        ("augment", {"speed": (0.9, 1.1)}, "augment.speed: (1.0, 1.0), (0.9, 1.1)"),
    ],
)
def test_a_run_goes_on_with_the_settings_it_began_with(
    workdir, train, dev, section, values, difference
):
    prepare(settings(), workdir, train, dev)
    before = (workdir / "config.json").read_bytes()
    with pytest.raises(UserError) as error:
        prepare(settings(**{section: values}), workdir, train, dev)
    assert str(error.value) == (
        f"{workdir}/config.json: this run began with other settings ({difference}); go on with the "
        "same ones or choose a new --workdir"
    )
    assert (workdir / "config.json").read_bytes() == before


@pytest.mark.parametrize(
    ("section", "values"),
    [
        ("training", {"num_epochs": 99}),
        ("training", {"checkpoint_steps": 9, "keep_checkpoints": 9, "log_steps": 9}),
        ("data", {"train": "moved.jsonl", "dev": "moved_dev.jsonl"}),
        ("data", {"max_bad_share": 0.5}),
    ],
)
def test_what_does_not_change_the_weights_may_change(workdir, train, dev, section, values):
    prepare(settings(), workdir, train, dev)
    run = settings(**{section: values})
    prepare(run, workdir, train, dev)
    assert config.load(workdir / "config.json") == run


def test_all_that_changed_is_named_at_once(workdir, train, dev):
    prepare(settings(), workdir, train, dev)
    run = settings(model={"rnn_units": 8}, training={"seed": 1, "num_epochs": 99})
    with pytest.raises(UserError, match=r"\(model.rnn_units: 512, 8; training.seed: 0, 1\)"):
        prepare(run, workdir, train, dev)


def refuses_the_data(run, workdir, train, dev):
    with pytest.raises(UserError) as error:
        data_preparation.prepare(run, workdir, train, dev, (workdir / "config.json").exists())
    assert str(error.value) == (
        f"{workdir}/data.json: this run began with other data; give back the manifests it began "
        "with or choose a new --workdir"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"transcript": "ab"},
        {"duration_seconds": 0.51},
        {"audio_paths": ("other.wav",)},
        {"audio_paths": ("train0.wav", "train1.wav"), "pauses_seconds": (0.1,)},
    ],
)
def test_a_run_goes_on_with_the_data_it_began_with(workdir, train, dev, change):
    run = settings()
    prepare(run, workdir, train, dev)
    rows, dev_rows = train.read(), dev.read()
    refuses_the_data(run, workdir, [dataclasses.replace(rows[0], **change), *rows[1:]], dev_rows)
    refuses_the_data(run, workdir, rows[1:], dev_rows)
    refuses_the_data(run, workdir, [*rows[1:], rows[0]], dev_rows)
    refuses_the_data(run, workdir, rows, dev_rows[:1])


def test_rows_that_move_between_training_and_dev_are_noticed(workdir, train, dev):
    run = settings()
    prepare(run, workdir, train, dev)
    rows, dev_rows = train.read(), dev.read()
    refuses_the_data(run, workdir, rows[:-1], [rows[-1], *dev_rows])
    refuses_the_data(run, workdir, [*rows, dev_rows[0]], dev_rows[1:])


def test_data_may_move_to_another_folder(tmp_path, workdir, train, dev):
    run = settings()
    prepare(run, workdir, train, dev)
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in [*tmp_path.glob("*.wav"), *tmp_path.glob("*.jsonl")]:
        path.rename(moved / path.name)
    rows, dev_rows = manifest.read(moved / "train.jsonl"), manifest.read(moved / "dev.jsonl")
    assert rows[0].audio_path == str(moved / "train0.wav")
    data_preparation.prepare(run, workdir, rows, dev_rows, (workdir / "config.json").exists())


def test_recorded_noise_belongs_to_the_data(tmp_path, workdir, train, dev):
    def run(path):
        return settings(augment={"noise_manifest": str(path)})

    path = noise_manifest(tmp_path)
    prepare(run(path), workdir, train, dev)
    moved = path.rename(tmp_path / "moved.jsonl")
    prepare(run(moved), workdir, train, dev)
    other = noise_manifest(tmp_path, "other")
    refuses_the_data(run(other), workdir, train.read(), dev.read())
    refuses_the_data(settings(), workdir, train.read(), dev.read())


@pytest.mark.parametrize("content", [None, "{", "[]", "{}"])
def test_a_damaged_record_of_the_data_is_named(workdir, train, dev, content):
    run = settings()
    prepare(run, workdir, train, dev)
    path = workdir / "data.json"
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=rf"^{path}: .* choose a new --workdir"):
        prepare(run, workdir, train, dev)


def test_a_call_that_was_killed_is_repeated_whole(workdir, train, dev):
    """config.json comes last: without it nothing counts."""
    run = settings()
    alphabet, statistics = prepare(run, workdir, train, dev)
    (workdir / "config.json").unlink()
    (workdir / "data.json").write_text("half")
    (workdir / "normalization.npz").unlink()
    again, same = prepare(run, workdir, train, dev)
    assert again == alphabet
    np.testing.assert_array_equal(same.mean, statistics.mean)
    assert json.loads((workdir / "data.json").read_text())["utterances"] == 6


def test_before_the_first_step_other_settings_begin_anew(tmp_path, train, dev):
    workdir = tmp_path / "run"
    first, second = settings(training={"seed": 1}), settings(training={"seed": 2})
    for run in (first, second):
        data_preparation.prepare(run, workdir, train.read(), dev.read(), started=False)
        assert config.load(workdir / "config.json") == run


def test_a_folder_that_cannot_be_written_is_named_before_the_data_is_judged(tmp_path, train, dev):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written .Not a directory.; choose a folder"):
        data_preparation.prepare(
            settings(), tmp_path / "file" / "run", train.read(), dev.read(), started=False
        )


def test_a_worker_with_other_settings_or_data_is_told(tmp_path, train, dev):
    workdir = tmp_path / "run"
    data_preparation.prepare(settings(), workdir, train.read(), dev.read(), started=False)
    same = (workdir, train.read(), dev.read())
    data_preparation.require_same_as_chief(settings(), *same)
    other = settings(schedule={"learning_rate": 0.1}, training={"num_epochs": 3})
    with pytest.raises(UserError) as caught:
        data_preparation.require_same_as_chief(other, *same)
    assert "the chief trains with other settings (chief's, this worker's: " in str(caught.value)
    assert "schedule.learning_rate: 0.0003, 0.1; training.num_epochs: 20, 3" in str(caught.value)
    with pytest.raises(UserError, match="this run began with other data"):
        data_preparation.require_same_as_chief(settings(), workdir, train.read()[1:], dev.read())
    with pytest.raises(UserError, match="all workers must share one"):
        data_preparation.require_same_as_chief(settings(), tmp_path / "other", *same[1:])
