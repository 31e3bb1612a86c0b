import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from ds2_tf.transcribe import Transcriber

CLONE = pathlib.Path(__file__).parents[2]


@pytest.mark.slow
def test_the_demo_learns_to_recognise_digits(tmp_path):
    demo = subprocess.run(
        [sys.executable, "-m", "tools.demo", f"--workdir={tmp_path}"],
        cwd=CLONE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert demo.returncode == 0, demo.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["wer_known_speakers"] <= 0.04
    assert results["wer_unseen_speaker"] <= 0.3
    for line in demo.stdout.partition("6/6")[2].splitlines():
        if line.startswith(str(tmp_path)):
            assert pathlib.Path(line.partition(":")[0]).exists(), line
    silence = np.zeros(10 * 8000, np.float32)
    assert Transcriber.load(tmp_path).transcribe_blocks([silence]).text == ""


def test_a_stray_argument_is_a_usage_error():
    demo = subprocess.run(
        [sys.executable, "-m", "tools.demo", "now"],
        cwd=CLONE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert demo.returncode == 2
    assert demo.stderr == "error: unexpected argument 'now'; see --help\n"
