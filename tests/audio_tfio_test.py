import io
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from ds2_tf import audio, audio_tfio, manifest
from ds2_tf.errors import UserError

RECORDINGS = manifest.read(pathlib.Path(__file__).parent / "data" / "recordings" / "manifest.jsonl")
NOISE = np.random.default_rng(0).uniform(-0.5, 0.5, (20_000, 3))

needs_ops = pytest.mark.skipif(
    not audio_tfio.available(), reason="tensorflow-io's native ops do not load here"
)


@pytest.fixture(scope="module")
def decode():
    return tf.function(audio_tfio.decode, input_signature=[tf.TensorSpec([], tf.string)])


def write(path, channels=1, rate_hz=16000, **options):
    soundfile.write(path, NOISE[:, :channels], rate_hz, **options)
    return str(path)


def test_asking_prints_nothing():
    """Where tensorflow-io is installed without its ops, its import warns twice."""
    code = (
        "import tensorflow, sys; print('asked', file=sys.stderr, flush=True);"
        "from ds2_tf import audio_tfio; print(audio_tfio.available())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.stdout == f"{audio_tfio.available()}\n"
    noise = done.stderr.split("asked\n")[1].splitlines()
    assert not [line for line in noise if "tensorflow_io" in line or "Warning" in line]


@pytest.mark.skipif(audio_tfio.available(), reason="tensorflow-io's native ops load here")
def test_without_the_ops_the_error_names_the_remedy():
    with pytest.raises(UserError, match=r"^tensorflow-io: its native ops do not load; install the"):
        audio_tfio.decode(tf.constant("a.wav"))


@needs_ops
@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize(
    ("container", "subtype"),
    [
        ("WAV", "PCM_U8"),
        ("WAV", "PCM_16"),
        ("WAV", "PCM_24"),
        ("WAV", "FLOAT"),
        ("WAVEX", "PCM_16"),
        ("FLAC", "PCM_16"),
        ("FLAC", "PCM_24"),
    ],
)
def test_native_formats_equal_audio_load(decode, tmp_path, container, subtype, channels):
    path = write(tmp_path / "a", channels, 22050, format=container, subtype=subtype)
    branch, rate_hz, _ = audio_tfio._inspect(path.encode())
    assert branch != audio_tfio._PYTHON
    samples, rate = decode(path)
    assert samples.dtype == tf.float32
    assert rate.numpy() == rate_hz == 22050
    np.testing.assert_array_equal(samples, audio.load(path, 22050))


@needs_ops
@pytest.mark.parametrize(
    ("container", "subtype"),
    [
        ("WAV", "PCM_32"),
        ("WAV", "DOUBLE"),
        ("WAV", "ULAW"),
        ("FLAC", "PCM_S8"),
        ("OGG", "OPUS"),
        ("OGG", "VORBIS"),
        ("MP3", "MPEG_LAYER_III"),
        ("AIFF", "PCM_16"),
    ],
)
def test_other_formats_go_through_audio_load(decode, tmp_path, container, subtype):
    path = write(tmp_path / "a", 1, 16000, format=container, subtype=subtype)
    samples, rate = decode(path)
    assert rate.numpy() == 16000
    np.testing.assert_array_equal(samples, audio.load(path, 16000))


@needs_ops
def test_real_recordings_in_a_dataset():
    paths = [utterance.audio_path for utterance in RECORDINGS]
    dataset = tf.data.Dataset.from_tensor_slices(paths).map(
        audio_tfio.decode, num_parallel_calls=2, deterministic=True
    )
    assert dataset.element_spec == (
        tf.TensorSpec([None], tf.float32),
        tf.TensorSpec([], tf.int32),
    )
    decoded = list(dataset.as_numpy_iterator())
    assert len(decoded) == len(paths)
    for path, (samples, rate) in zip(paths, decoded, strict=True):
        np.testing.assert_array_equal(samples, audio.load(path, int(rate)))


def damaged_files():
    def encode(container, subtype="PCM_16"):
        file = io.BytesIO()
        soundfile.write(file, NOISE[:, 0], 16000, format=container, subtype=subtype)
        return bytearray(file.getvalue())

    wav, flac, flipped, more = (encode(x) for x in ("WAV", "FLAC", "FLAC", "FLAC"))
    flipped[len(flac) // 2] ^= 0x55
    more[25] += 1
    nan = encode("WAV", "FLOAT")
    nan[-8:-4] = b"\x00\x00\xc0\x7f"
    no_samples = wav[:40] + bytes(4)
    return {
        "html": b"<html>404",
        "empty": b"",
        "wav cut": wav[:-3],
        "wav without samples": no_samples,
        "wav not finite": nan,
        "flac cut in its last frame": flac[:-5],
        "flac cut in the middle": flac[: len(flac) // 2],
        "flac with a damaged frame": flipped,
        "flac that claims more": more,
    }


@needs_ops
@pytest.mark.parametrize("kind", damaged_files())
def test_what_the_native_ops_get_wrong_is_an_error_that_names_the_file(decode, tmp_path, kind):
    """The ops alone fill damage with silence, never return, or end a dataset as if complete."""
    path = tmp_path / "a"
    path.write_bytes(damaged_files()[kind])
    with pytest.raises(audio.AudioError) as expected:
        audio.load(path, 16000)
    with pytest.raises(tf.errors.UnknownError) as error:
        decode(str(path))
    assert f"AudioError: {expected.value}\n" in str(error.value)
    dataset = tf.data.Dataset.from_tensors(str(path)).map(audio_tfio.decode)
    with pytest.raises(tf.errors.UnknownError, match="AudioError: "):
        list(dataset)


@needs_ops
@pytest.mark.parametrize("size", [0, 0xFFFFFFFF])
def test_a_wav_header_that_leaves_its_size_open(decode, tmp_path, size):
    path = tmp_path / "a.wav"
    content = bytearray(pathlib.Path(write(path)).read_bytes())
    content[40:44] = size.to_bytes(4, "little")
    expected = audio.load(path, 16000)
    path.write_bytes(content)
    np.testing.assert_array_equal(decode(str(path))[0], expected)


@needs_ops
def test_a_missing_file_is_named(decode):
    with pytest.raises(tf.errors.OpError, match=r"/no/such\.wav: no such file; check the path"):
        decode("/no/such.wav")


@needs_ops
def test_files_decoded_in_the_graph_read_like_files(tmp_path):
    good = [utterance.audio_path for utterance in RECORDINGS]
    missing = str(tmp_path / "missing.wav")
    in_graph = audio_tfio.Decoded()
    decoded = tf.function(in_graph.decode)(tf.constant([*good, missing]))
    read = in_graph.reader([*good, missing], *(value.numpy() for value in decoded))
    for path in good:
        np.testing.assert_array_equal(read(path, 8000), audio.load(path, 8000))
    with pytest.raises(audio.AudioError, match=r"missing.wav: no such file; check the path"):
        read(missing, 8000)


def test_samples_are_cut_at_the_ends_of_the_files():
    """Of no files, too: a worker may have no part in a batch."""
    in_graph, samples = audio_tfio.Decoded(), np.arange(5, dtype=np.float32)
    read = in_graph.reader(["a", "b", "c"], samples, np.array([2, 0, 3]), np.array([8000] * 3))
    assert [read(name, 8000).tolist() for name in "abc"] == [[0, 1], [], [2, 3, 4]]
    in_graph.reader([], samples[:0], np.zeros(0, np.int32), np.zeros(0, np.int32))
