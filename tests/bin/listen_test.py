import json
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
import soxr

from ds2_tf import audio, checkpoint, config
from ds2_tf.acoustic_model import BEST_WEIGHTS
from ds2_tf.transcribe import Transcriber
from tests.streaming_models import MODELS, make_model

RATE = 8000


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    """A forward-only model of random weights, saved as a run."""
    folder = tmp_path_factory.mktemp("streaming_workdir")
    # Of the random models this is one that writes a lot.
    model = make_model(MODELS["rnn without batch norm"], {"power_normalization": "running"})
    checkpoint.save(folder / BEST_WEIGHTS, checkpoint.model_arrays(model.network), {})
    config.save(model.config, folder / "config.json")
    model.alphabet.save(folder / "alphabet.json")
    model.normalization.save(folder / "normalization.npz")
    return folder


@pytest.fixture(scope="module")
def samples(digits_folder):
    paths = sorted(digits_folder.rglob("*.flac"))[:6]
    joined = np.concatenate([audio.load(path, RATE) for path in paths])
    return np.round(joined * 32767).astype("<i2")


# Whoever runs the tests may ignore the signal, and so would its children.
LISTEN = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("ds2_tf.bin.listen", run_name="__main__")
"""


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-c", LISTEN, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


NO_RULES = ("--silence_seconds=0", "--stability_seconds=0", "--sentence_seconds=0")


def test_a_pipe_gives_the_text_of_the_whole(workdir, samples):
    process = start(f"--workdir={workdir}", *NO_RULES)
    output, errors = process.communicate(samples.tobytes() + b"\x00")  # half a sample too many
    assert process.returncode == 0, errors
    expected = Transcriber.load(workdir).transcribe_blocks([samples.astype(np.float32) / 32768])
    assert expected.text
    assert output.decode() == expected.text + "\n"


def test_another_rate_is_resampled_and_sentences_are_json(workdir, samples):
    process = start(
        f"--workdir={workdir}", "--rate_hz=16000", "--format=json", "--stability_seconds=0.06"
    )
    doubled = soxr.resample(samples.astype(np.float32) / 32768, RATE, 2 * RATE)
    output, errors = process.communicate(np.round(doubled * 32767).astype("<i2").tobytes())
    assert process.returncode == 0, errors
    rows = [json.loads(line) for line in output.splitlines()]
    assert len(rows) > 1
    times = [word["start_seconds"] for row in rows for word in row["words"]]
    assert times == sorted(times)
    assert times[-1] < len(samples) / RATE


def test_ctrl_c_writes_what_was_heard(workdir, samples):
    process = start(f"--workdir={workdir}", "--format=json", "--stability_seconds=0.06")
    process.stdin.write(samples.tobytes())
    process.stdin.flush()
    threading.Timer(60, process.kill).start()  # Not to wait for ever.
    assert process.stdout.readline()  # The first sentence has ended; the stream goes on.
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate()
    assert process.returncode == 130
    assert errors.decode().splitlines()[-1] == "interrupted"
    assert output.strip()


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"RIFF....WAVEfmt ", "is a wav file, not raw samples"), (b"ID3\x04", "is an mp3 file")],
)
def test_a_sound_file_is_told_from_samples(workdir, content, message):
    process = start(f"--workdir={workdir}")
    output, errors = process.communicate(content)
    assert (process.returncode, output) == (1, b"")
    assert errors.decode().startswith(f"error: standard input: {message}")


def test_a_bidirectional_model_cannot_listen(tiny_workdir):
    process = start(f"--workdir={tiny_workdir}")
    _, errors = process.communicate(b"")
    assert process.returncode == 1
    assert errors.decode().startswith("error: the model is bidirectional")
