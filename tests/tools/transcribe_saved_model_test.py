import pathlib
import subprocess
import sys

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from ds2_tf.acoustic_model import AcousticModel
from export import saved_model
from tools import transcribe_saved_model

SCRIPT = pathlib.Path(transcribe_saved_model.__file__)
RATE_HZ = 8000


@pytest.fixture(scope="module")
def model(tiny_workdir):
    return AcousticModel.load(tiny_workdir)


@pytest.fixture(scope="module")
def exported(model, tmp_path_factory):
    output = tmp_path_factory.mktemp("exports") / "tiny"
    saved_model.export(model, output)
    return str(output)


def write(path, samples, rate_hz=RATE_HZ, subtype="PCM_16"):
    soundfile.write(path, samples, rate_hz, subtype=subtype)
    return str(path)


def noise(num_samples, seed):
    samples = np.random.default_rng(seed).normal(0, 0.1, num_samples)
    return np.rint(samples * 2**15) / 2**15


def test_texts_are_those_of_the_model_in_a_process_with_tensorflow_alone(model, exported, tmp_path):
    sounds = [noise(n, n) for n in (4000, 0, 100, 5000, *range(2000, 2900, 50))]
    paths = [write(tmp_path / f"{i}.wav", sound) for i, sound in enumerate(sounds)]
    assert len(paths) > transcribe_saved_model.BATCH_SIZE
    blocked = (
        "import runpy, sys\n"
        "for name in ('keras', 'ds2_tf', 'export'): sys.modules[name] = None\n"
        "sys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", blocked, str(SCRIPT), exported, *paths],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    texts = []
    for path, line in zip(paths, done.stdout.splitlines(), strict=True):
        shown, _, text = line.partition("\t")
        assert shown == path
        texts.append(text)
    assert texts[1:3] == ["", ""]
    for sound, text in list(zip(sounds, texts, strict=True))[3:6]:
        outputs, lengths = model.log_probabilities(
            sound[np.newaxis].astype(np.float32), tf.constant([len(sound)])
        )
        best = outputs[0, : int(lengths[0])].numpy().argmax(-1)
        labels = [b for a, b in zip([0, *best], best, strict=False) if b not in (0, a)]
        assert text == " ".join(model.alphabet.decode(labels).split()) != ""


def test_stereo_is_mixed(tmp_path):
    left, right = noise(300, 1), noise(300, 2)
    path = write(tmp_path / "stereo.wav", np.stack([left, right], axis=1))
    samples = transcribe_saved_model.read_wav(path, RATE_HZ)
    np.testing.assert_allclose(samples, (left + right) / 2, atol=1e-6)


@pytest.mark.parametrize(
    ("rate_hz", "subtype", "reason"),
    [
        (16000, "PCM_16", "has 16000 Hz, the model hears 8000 Hz"),
        (8000, "PCM_24", "not a 16-bit wav file"),
        (8000, "FLOAT", "not a 16-bit wav file"),
    ],
)
def test_other_wav_files_are_told_with_the_remedy(tmp_path, rate_hz, subtype, reason):
    path = write(tmp_path / "a.wav", noise(300, 1), rate_hz, subtype)
    with pytest.raises(ValueError, match="convert it") as error:
        transcribe_saved_model.read_wav(path, RATE_HZ)
    assert str(error.value) == (
        f"{path}: {reason}; convert it: ffmpeg -i {path} -ar 8000 -ac 1 -c:a pcm_s16le "
        f"{tmp_path}/a.16bit.wav"
    )


@pytest.mark.parametrize(
    ("folder", "wav", "message"),
    [
        (None, "none.wav", "none.wav: not found"),
        ("none", "none.wav", "none: not an exported model; see python -m export"),
    ],
)
def test_missing_files_fail_in_one_line(exported, monkeypatch, capsys, folder, wav, message):
    monkeypatch.setattr(sys, "argv", ["transcribe_saved_model", folder or exported, wav])
    assert transcribe_saved_model.main() == 1
    assert capsys.readouterr() == ("", f"error: {message}\n")
