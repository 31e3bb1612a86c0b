import json
import math
import pathlib
import subprocess
import sys

import pytest

from ds2_tf.acoustic_model import AcousticModel

CLONE = pathlib.Path(__file__).parents[2]


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "ds2_tf.bin.summary", *map(str, arguments)],
        cwd=CLONE,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_config_whose_alphabet_lists_its_symbols(tmp_path):
    path = tmp_path / "summary.json"
    done = run(
        "--config=configs/table1.py:5-1-bn:small", "--config.model.rnn_units=8", f"--json={path}"
    )
    assert done.returncode == 0, done.stderr
    content = json.loads(path.read_text())
    # Of 150 channels: 11 frames of 81 bins, W, U in two directions, three fully connected layers.
    conv, recurrent = 11 * 81 * 150 + 300, 150 * 8 + 2 * 8 * 8 + 16
    dense = 8 * 150 + 2 * 150 * 150 + 3 * 300
    assert content["num_labels"] == 17
    assert content["parameters"] == conv + recurrent + dense + 151 * 17
    assert f"{content['parameters']:,}" in done.stdout
    assert done.stdout.endswith("look-ahead: whole utterance\n")


def test_a_config_whose_labels_are_those_of_the_transcripts(tmp_path):
    arguments = ["--config=configs/table5.py:3-bigrams:small", f"--json={tmp_path}/summary.json"]
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: the alphabet depends on the transcripts: --num_labels or --config.data.train is "
        "required; see --help\n"
    )

    row = {"audio_filepath": "absent.wav", "duration": 1.0, "text": "two two"}
    (tmp_path / "train.jsonl").write_text(json.dumps(row))
    done = run(*arguments, f"--config.data.train={tmp_path}/train.jsonl")
    assert done.returncode == 0, done.stderr
    # The blank, 16 characters, and "tw".
    assert json.loads((tmp_path / "summary.json").read_text())["num_labels"] == 18

    done = run(*arguments, "--num_labels=90")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "summary.json").read_text())["num_labels"] == 90


def test_a_workdir(tiny_workdir, tmp_path):
    done = run(f"--workdir={tiny_workdir}", f"--json={tmp_path}/summary.json")
    assert done.returncode == 0, done.stderr
    network = AcousticModel.load(tiny_workdir).network
    content = json.loads((tmp_path / "summary.json").read_text())
    assert content["num_labels"] == 29
    assert content["parameters"] == sum(math.prod(w.shape) for w in network.trainable_weights)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "one of --config and --workdir is required"),
        (
            ["--config=configs/digits.py", "--workdir=w"],
            "one of --config and --workdir is required",
        ),
        (
            ["--config=configs/digits.py", "--num_labels=30"],
            "the config's alphabet has 17 labels, not --num_labels=30",
        ),
        (["--workdir=w", "--num_labels=30"], "--num_labels and --workdir exclude each other"),
        (["--workdir=w", "digits"], "unexpected argument 'digits'"),
        (
            ["--config=configs/table4.py:4x2d"],
            "flag --config=configs/table4.py:4x2d: configs/table4.py:ROW or ROW:small, ROW one of "
            "1x1d, 2x1d, 3x1d, 1x2d, 2x2d, 3x2d. Received: '4x2d'",
        ),
    ],
)
def test_wrong_command_lines(arguments, message):
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {message}; see --help\n"
