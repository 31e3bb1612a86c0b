"""One pass over a recording: lengths, loudness, content."""

import threading
import time

import numpy as np
import pytest
import soundfile

from ds2_tf import audio, audio_facts


def noise(num_samples: int, level: float = 0.1) -> np.ndarray:
    samples = np.random.default_rng(0).normal(0, level, num_samples)
    return samples.clip(-1, 1).astype(np.float32)


def write(path, samples, rate=16000, **options) -> str:
    soundfile.write(path, samples, rate, **options)
    return str(path)


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 44100, 48000])
@pytest.mark.parametrize("num_samples", [1, 17, 441, 12253, 70001])
def test_number_of_samples_is_what_load_gives_at_any_rate(tmp_path, rate, num_samples):
    path = write(tmp_path / "a.wav", noise(num_samples), rate)
    facts = audio_facts.measure(path)
    assert facts.num_samples == num_samples
    assert facts.duration_seconds == num_samples / rate
    for model_rate in (8000, 16000):
        assert facts.num_samples_at(model_rate) == len(audio.load(path, model_rate))


def test_windows_are_counted_across_blocks(tmp_path):
    rate = 8000
    samples = np.zeros(70 * rate, np.float32)
    samples[29 * rate : 31 * rate] = noise(2 * rate)
    samples[69 * rate :] = 0.5  # A constant is no sound.
    facts = audio_facts.measure(write(tmp_path / "a.wav", samples, rate))
    assert facts.num_windows == 70 * 50
    assert facts.num_sound_windows == 2 * 50
    assert not facts.is_zero


def test_sound_is_what_exceeds_60_db_below_full_scale(tmp_path):
    tone = np.sin(2 * np.pi * 1000 * np.arange(16000) / 16000) * np.sqrt(2)  # RMS 1
    for level_db, expected in ((-59.5, 50), (-60.5, 0)):
        path = write(tmp_path / "a.wav", tone * 10 ** (level_db / 20), subtype="FLOAT")
        assert audio_facts.measure(path).num_sound_windows == expected


def test_a_recording_shorter_than_a_window_is_one_window(tmp_path):
    facts = audio_facts.measure(write(tmp_path / "a.wav", noise(50)))
    assert (facts.num_windows, facts.num_sound_windows) == (1, 1)


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "FLOAT", "ULAW", "ALAW"])
def test_full_scale_is_recognised_in_every_sample_format(tmp_path, subtype):
    samples = np.tile([1.0, -1.0, 0.5, 0.0, 0.9], 200)
    facts = audio_facts.measure(write(tmp_path / "a.wav", samples, subtype=subtype))
    assert facts.num_full_scale == 400


def test_the_digest_is_of_the_sound_and_not_of_the_file(tmp_path):
    samples = (32767 * noise(9000)).astype(np.int16)
    wav = audio_facts.measure(write(tmp_path / "a.wav", samples)).digest
    assert audio_facts.measure(write(tmp_path / "b.flac", samples)).digest == wav
    stereo = np.stack([samples, samples], axis=1)
    assert audio_facts.measure(write(tmp_path / "c.wav", stereo)).digest == wav
    assert audio_facts.measure(write(tmp_path / "d.wav", samples[1:])).digest != wav
    assert audio_facts.measure(write(tmp_path / "e.wav", samples, 8000)).digest != wav


def test_all_are_measured_in_order_and_errors_take_their_place(tmp_path):
    paths = [write(tmp_path / f"{i}.wav", noise(1000 + i)) for i in range(30)]
    paths[7] = str(tmp_path / "gone.wav")
    results = list(audio_facts.measure_all(paths, num_threads=3))
    assert [path for path, _ in results] == paths
    assert isinstance(results[7][1], audio.AudioError)
    assert results[7][1].reason == "missing"
    sizes = [facts.num_samples for i, (_, facts) in enumerate(results) if i != 7]
    assert sizes == [1000 + i for i in range(30) if i != 7]


def test_threads_run_only_a_little_ahead_of_the_reader(monkeypatch):
    measured = []
    lock = threading.Lock()

    def record(path):
        with lock:
            measured.append(path)

    monkeypatch.setattr(audio_facts, "measure", record)
    results = audio_facts.measure_all([str(i) for i in range(1000)], num_threads=2)
    next(results)
    time.sleep(0.2)
    assert len(measured) <= 8
    results.close()
    time.sleep(0.1)
    assert len(measured) <= 8


def test_an_unforeseen_error_names_the_file(monkeypatch):
    def fail(path):
        raise RuntimeError("odd")

    monkeypatch.setattr(audio_facts, "measure", fail)
    with pytest.raises(RuntimeError, match="odd") as raised:
        list(audio_facts.measure_all(["strange.wav"]))
    assert raised.value.__notes__ == ["while decoding strange.wav"]
