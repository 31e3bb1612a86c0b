import io
import os
import pathlib
import pickle
import struct
import threading
import tracemalloc
import wave

import numpy as np
import pytest
import soundfile

from ds2_tf import audio, manifest
from ds2_tf.audio import AudioError, AudioInfo
from ds2_tf.errors import UserError
from ds2_tf.manifest import Utterance

RECORDINGS = manifest.read(pathlib.Path(__file__).parent / "data" / "recordings" / "manifest.jsonl")


def tone(hz, rate_hz, seconds=1.0, level=0.5):
    return level * np.sin(2 * np.pi * hz * np.arange(round(rate_hz * seconds)) / rate_hz)


def encode(samples, rate_hz=16000, container="WAV", subtype="PCM_16"):
    file = io.BytesIO()
    soundfile.write(file, samples, rate_hz, format=container, subtype=subtype)
    return file.getvalue()


def wav(sample_bytes, rate_hz, channels, width):
    """Written by the standard library, not by libsndfile."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(channels)
        writer.setsampwidth(width)
        writer.setframerate(rate_hz)
        writer.writeframes(sample_bytes)
    return file.getvalue()


def level_db(samples, hz, rate_hz):
    """Level of one frequency, of the middle half: 0 dB is a full-scale sine."""
    middle = samples[len(samples) // 4 : 3 * len(samples) // 4]
    window = np.hanning(len(middle))
    turn = np.exp(-2j * np.pi * hz * np.arange(len(middle)) / rate_hz)
    return 20 * np.log10(2 * abs(np.sum(middle * window * turn)) / window.sum() + 1e-12)


INTEGERS = np.array([-1.0, -0.5, 0.0, 0.25, 127 / 128])


@pytest.mark.parametrize(
    ("width", "sample_bytes"),
    [
        (1, bytes([0, 64, 128, 160, 255])),
        (2, struct.pack("<5h", *(INTEGERS * 2**15).astype(int))),
        (3, b"".join(int(x * 2**23).to_bytes(3, "little", signed=True) for x in INTEGERS)),
        (4, struct.pack("<5i", *(INTEGERS * 2**31).astype(int))),
    ],
)
def test_integer_wav_of_every_width(width, sample_bytes):
    samples = audio.load(wav(sample_bytes, 16000, 1, width), 16000)
    assert samples.dtype == np.float32
    np.testing.assert_array_equal(samples, INTEGERS.astype(np.float32))


@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE"])
def test_float_wav_keeps_its_level(subtype):
    given = np.array([-1.5, -1e-9, 0.0, 0.1, 1.25], np.float32)
    np.testing.assert_array_equal(audio.load(encode(given, subtype=subtype), 16000), given)


def g711_mu_law(code):
    code = ~code & 0xFF
    size = ((((code & 15) << 3) + 132) << (code >> 4 & 7)) - 132
    return (-size if code & 128 else size) / 32768


def g711_a_law(code):
    code ^= 0x55
    segment, size = code >> 4 & 7, ((code & 15) << 4) + 8
    size = size if segment == 0 else (size + 256) << (segment - 1)
    return (size if code & 128 else -size) / 32768


@pytest.mark.parametrize(("tag", "law"), [(6, g711_a_law), (7, g711_mu_law)])
def test_telephone_wav(tag, law):
    content = bytearray(wav(bytes(range(256)), 8000, 1, 1))
    content[20:22] = struct.pack("<H", tag)
    expected = np.array([law(code) for code in range(256)], np.float32)
    np.testing.assert_array_equal(audio.load(bytes(content), 8000), expected)


def test_stereo_becomes_the_mean_of_its_channels():
    left, right = tone(440, 16000), tone(1000, 16000, level=0.2)
    stereo = audio.load(encode(np.stack([left, right], 1), subtype="FLOAT"), 16000)
    np.testing.assert_allclose(stereo, (left + right) / 2, atol=1e-7)
    opposite = audio.load(encode(np.stack([left, -left], 1), subtype="FLOAT"), 16000)
    assert np.abs(opposite).max() < 1e-7


@pytest.mark.parametrize(
    ("container", "subtype", "tolerance"),
    [
        ("FLAC", "PCM_16", 2**-15),
        ("FLAC", "PCM_24", 2**-23),
        ("OGG", "OPUS", 0.05),
        ("OGG", "VORBIS", 0.05),
        ("MP3", "MPEG_LAYER_III", 0.05),
        ("AIFF", "PCM_16", 2**-15),
    ],
)
def test_other_formats(container, subtype, tolerance):
    given = tone(440, 16000)
    content = encode(given, 16000, container, subtype)
    samples = audio.load(content, 16000)
    assert len(samples) == 16000
    np.testing.assert_allclose(samples[800:-800], given[800:-800], atol=tolerance)
    assert audio.probe(content) == AudioInfo(16000, 1, 16000, container, subtype)


def test_mp3_and_opus_are_read_in_step_with_each_other():
    """Codec delays are taken off: the tone's phase is the same in all formats (the test above)."""
    given = np.zeros(16000)
    given[8000:8040] = tone(1000, 16000, 0.0025, 0.9)
    for container, subtype in (("MP3", "MPEG_LAYER_III"), ("OGG", "OPUS")):
        samples = audio.load(encode(given, 16000, container, subtype), 16000)
        assert abs(int(np.argmax(np.abs(samples))) - 8020) <= 24


@pytest.mark.parametrize("utterance", RECORDINGS, ids=lambda u: os.path.basename(u.audio_path))
def test_real_recordings(utterance):
    samples = audio.load_utterance(utterance, 16000)
    assert len(samples) / 16000 == pytest.approx(utterance.duration_seconds, abs=0.002)
    assert 0.01 < np.abs(samples).max() <= 1.0
    info = audio.probe(utterance.audio_path)
    assert info.num_frames / info.sample_rate_hz == pytest.approx(len(samples) / 16000, abs=1e-4)


@pytest.mark.parametrize("rate_hz", [8000, 11025, 22050, 44100, 48000])
@pytest.mark.parametrize("hz", [300, 1000, 3000])
def test_any_rate_gives_the_same_tone(rate_hz, hz):
    """The oracle is the formula: right frequency, level, phase; no delay."""
    samples = audio.load(encode(tone(hz, rate_hz), rate_hz, subtype="FLOAT"), 16000)
    assert len(samples) == 16000
    np.testing.assert_allclose(samples[400:-400], tone(hz, 16000)[400:-400], atol=2e-4)


@pytest.mark.parametrize(
    ("source_hz", "target_hz", "inside"),
    [(44100, 16000, (100, 1000, 3000, 6000, 7000)), (8000, 16000, (100, 1000, 3000, 3500))],
)
def test_tones_inside_the_band_keep_their_level(source_hz, target_hz, inside):
    for hz in inside:
        samples = audio.load(encode(tone(hz, source_hz), source_hz, subtype="FLOAT"), target_hz)
        assert level_db(samples, hz, target_hz) == pytest.approx(20 * np.log10(0.5), abs=0.1)


@pytest.mark.parametrize(
    ("source_hz", "target_hz", "hz"),
    [
        (44100, 16000, 8600),
        (44100, 16000, 9000),
        (44100, 16000, 15000),
        (48000, 16000, 12000),
        (16000, 8000, 4500),
        (16000, 8000, 7500),
        (44100, 8000, 7500),
    ],
)
def test_tones_above_the_target_band_vanish(source_hz, target_hz, hz):
    samples = audio.load(encode(tone(hz, source_hz), source_hz, subtype="FLOAT"), target_hz)
    middle = samples[len(samples) // 4 : 3 * len(samples) // 4]
    assert 20 * np.log10(np.sqrt(np.mean(middle**2)) / (0.5 / np.sqrt(2))) < -90


@pytest.mark.parametrize("hz", [1000, 3000, 3500])
def test_raising_the_rate_adds_no_image(hz):
    samples = audio.load(encode(tone(hz, 8000), 8000, subtype="FLOAT"), 16000)
    assert level_db(samples, 8000 - hz, 16000) < 20 * np.log10(0.5) - 90


@pytest.mark.parametrize("utterance", RECORDINGS, ids=lambda u: os.path.basename(u.audio_path))
@pytest.mark.parametrize(("rate_hz", "block_seconds"), [(16000, 0.1), (8000, 0.33), (11025, 60)])
def test_blocks_are_the_samples_of_load(utterance, rate_hz, block_seconds):
    blocks = list(audio.blocks(utterance.audio_path, rate_hz, block_seconds))
    whole = audio.load(utterance.audio_path, rate_hz)
    np.testing.assert_array_equal(np.concatenate(blocks), whole)
    block_samples = round(rate_hz * block_seconds)
    assert {len(block) for block in blocks[:-1]} <= {block_samples}
    assert 0 < len(blocks[-1]) <= block_samples


@pytest.mark.parametrize(("container", "subtype"), [("WAV", "PCM_16"), ("FLAC", "PCM_16")])
@pytest.mark.parametrize("num_samples", [1, 65535, 65536, 65537, 200001])
def test_blocks_at_the_edges_of_the_reads(container, subtype, num_samples):
    given = np.random.default_rng(0).uniform(-1, 1, num_samples)
    content = encode(given, 16000, container, subtype)
    for rate_hz in (16000, 24000):
        whole = audio.load(content, rate_hz)
        blocks = list(audio.blocks(content, rate_hz, 1.0))
        np.testing.assert_array_equal(np.concatenate(blocks), whole)
    np.testing.assert_allclose(audio.load(content, 16000), given, atol=2**-15)


def test_blocks_take_bounded_memory(tmp_path):
    path = tmp_path / "long.wav"
    with soundfile.SoundFile(path, "w", 44100, 2, "PCM_16") as file:
        for _ in range(90):  # 3 minutes, 64 MB as float32.
            file.write(np.full((88200, 2), 0.25, np.float32))
    tracemalloc.start()
    num_samples = sum(map(len, audio.blocks(path, 16000, 30.0)))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert num_samples == 180 * 16000
    assert peak_bytes < 16e6


def test_sources_of_every_kind(tmp_path):
    content = encode(tone(440, 8000), 8000)
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    expected = audio.load(content, 8000)
    with open(path, "rb") as file:
        file.seek(10)
        sources = [path, str(path), bytearray(content), memoryview(content), file]
        for source in sources:
            np.testing.assert_array_equal(audio.load(source, 8000), expected)


@pytest.mark.parametrize("container", ["WAV", "FLAC", "OGG", "MP3"])
def test_a_pipe_is_read_to_its_end(container):
    subtype = {"OGG": "OPUS", "MP3": "MPEG_LAYER_III"}.get(container, "PCM_16")
    content = encode(np.random.default_rng(0).normal(0, 0.1, 100_000), 16000, container, subtype)
    read_end, write_end = os.pipe()

    def fill():
        with open(write_end, "wb") as file:
            file.write(content)

    writer = threading.Thread(target=fill)
    writer.start()
    with open(read_end, "rb") as pipe:
        blocks = list(audio.blocks(pipe, 16000, 5.0))
    writer.join()
    np.testing.assert_array_equal(np.concatenate(blocks), audio.load(content, 16000))


def test_a_named_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    content = encode(tone(440, 8000), 8000)
    writer = threading.Thread(target=path.write_bytes, args=(content,))
    writer.start()
    np.testing.assert_array_equal(audio.load(path, 8000), audio.load(content, 8000))
    writer.join()


def test_the_name_of_a_file_decides_nothing(tmp_path):
    content = encode(tone(440, 16000), 16000, "FLAC")
    for name in ("a.wav", "a.raw", "a.mp3", "a"):
        (tmp_path / name).write_bytes(content)
        assert audio.probe(tmp_path / name).format == "FLAC"
        assert len(audio.load(tmp_path / name, 16000)) == 16000


def test_parts_are_joined_with_silence(tmp_path):
    for name, level in (("a", 0.25), ("b", 0.5), ("c", -0.5)):
        (tmp_path / f"{name}.wav").write_bytes(encode(np.full(80, level), 8000))
    paths = tuple(str(tmp_path / f"{name}.wav") for name in "abc")
    joined = audio.load_utterance(Utterance(paths, 0.055, "", (0.02, 0.005)), 8000)
    expected = [0.25] * 80 + [0.0] * 160 + [0.5] * 80 + [0.0] * 40 + [-0.5] * 80
    np.testing.assert_array_equal(joined, np.array(expected, np.float32))
    without = audio.load_utterance(Utterance(paths, 0.03, ""), 8000)
    np.testing.assert_array_equal(without, joined[joined != 0])


def test_an_utterance_that_fails_names_the_line_of_its_manifest(tmp_path):
    present = tmp_path / "a.wav"
    present.write_bytes(encode(np.zeros(80), 8000))
    parts = (str(present), "/no/such.wav")
    with pytest.raises(AudioError) as error:
        audio.load_utterance(Utterance(parts, 1.0, "", line=12, manifest="m.jsonl"), 8000)
    assert str(error.value) == "m.jsonl:12: /no/such.wav: no such file; check the path"
    assert error.value.reason == "missing"


def test_audio_errors_are_user_errors_in_one_line_that_survive_a_process_boundary():
    error = AudioError("a\nb.wav", "empty", "is an empty file")
    assert isinstance(error, UserError)
    assert str(error) == "a\\nb.wav: is an empty file; record it again or remove it"
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert (again.reason, again.detail, again.remedy) == (error.reason, error.detail, error.remedy)


def test_wrong_arguments():
    content = encode(tone(440, 8000), 8000)
    with pytest.raises(ValueError, match=r"^sample_rate_hz must be >= 1. Received: 0$"):
        audio.load(content, 0)
    with pytest.raises(ValueError, match=r"^sample_rate_hz must be >= 1. Received: -1$"):
        audio.blocks(content, -1, 1.0)
    with pytest.raises(ValueError, match=r"^block_seconds must hold a sample. Received: 0.0$"):
        audio.blocks(content, 8000, 0.0)
