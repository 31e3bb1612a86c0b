import io
import os

import numpy as np
import pytest
import soundfile

from ds2_tf import audio
from ds2_tf.audio import AudioError

NOISE = np.random.default_rng(0).uniform(-0.3, 0.3, 48_000)
AGAIN = "copy or download it again"
CONVERT = "convert it with `ffmpeg -i FILE NEW.wav`"


def encode(container, subtype, **options):
    file = io.BytesIO()
    soundfile.write(file, NOISE, 16000, format=container, subtype=subtype, **options)
    return file.getvalue()


def error_of(content):
    with pytest.raises(AudioError) as error:
        audio.load(content, 16000)
    if not isinstance(content, bytes):
        return error.value.reason, str(error.value)
    name = f"<{len(content)} bytes>: "
    assert str(error.value).startswith(name)
    return error.value.reason, str(error.value).removeprefix(name)


@pytest.fixture(params=["OPUS", "VORBIS"])
def ogg(request):
    return encode("OGG", request.param)


def test_a_cut_ogg_file(ogg):
    last_page = ogg.rindex(b"OggS")
    for num_bytes in (4, 40, len(ogg) // 2, last_page + 10, last_page + 27, len(ogg) - 1):
        message = f"ends after {num_bytes} bytes, inside an ogg page; {AGAIN}"
        assert error_of(ogg[:num_bytes]) == ("truncated", message)
    message = f"ends without the page that closes an ogg stream; {AGAIN}"
    assert error_of(ogg[:last_page]) == ("truncated", message)


def test_a_damaged_ogg_file(ogg):
    pages = [at for at in range(len(ogg)) if ogg.startswith(b"OggS", at)]
    damaged = bytearray(ogg)
    damaged[pages[2] + 300] ^= 0x55  # The page's checksum fails, so its packets are left out.
    reason, message = error_of(bytes(damaged))
    assert reason == "truncated"
    assert message == (
        f"is cut off or damaged: its 3.00 seconds cannot be decoded to the end; {AGAIN}"
    )


def test_joined_ogg_streams_are_not_read_as_one(ogg):
    message = f"holds several ogg streams in a row, of which only the first is read; {CONVERT}"
    assert error_of(ogg + ogg) == ("unreadable", message)
    assert len(audio.load(ogg + bytes(1000), 16000)) == 48_000


@pytest.fixture(params=["CONSTANT", "VARIABLE", "AVERAGE"])
def mp3(request):
    return encode("MP3", "MPEG_LAYER_III", bitrate_mode=request.param)


def without_info(mp3):
    """Leaves out the first frame, the Xing or Info header that counts the others."""
    return mp3[mp3.index(mp3[:2], 4) :]


def test_a_cut_mp3_file_by_its_header(mp3):
    for num_bytes in (len(mp3) // 2, len(mp3) - 1):
        message = f"holds {num_bytes} of the {len(mp3)} bytes that its header claims; {AGAIN}"
        assert error_of(mp3[:num_bytes]) == ("truncated", message)


def test_an_mp3_file_without_such_a_header(mp3):
    bare = without_info(mp3)
    samples = audio.load(bare, 16000)
    assert audio.probe(bare).num_frames == len(samples) == 86 * 576
    for num_bytes in (len(bare) // 2 + 1, len(bare) - 1):
        message = f"ends after {num_bytes} bytes, inside an mp3 frame; {AGAIN}"
        assert error_of(bare[:num_bytes]) == ("truncated", message)


def test_mp3_files_with_tags(mp3):
    tag = b"ID3\x04\0\0\0\0\x02\x00" + bytes(256)
    expected = audio.load(mp3, 16000)
    for content in (tag + mp3, mp3 + b"TAG" + bytes(125)):
        np.testing.assert_array_equal(audio.load(content, 16000), expected)
    cut = (tag + mp3)[:-1]
    message = f"holds {len(mp3) - 1} of the {len(mp3)} bytes that its header claims; {AGAIN}"
    assert error_of(cut) == ("truncated", message)
    bare = tag + without_info(mp3)
    assert audio.probe(bare).num_frames == 86 * 576


@pytest.mark.parametrize("rate_hz", [8000, 11025, 12000, 22050, 24000, 32000, 44100, 48000])
@pytest.mark.parametrize("channels", [1, 2])
def test_mp3_frames_of_every_rate_are_counted(rate_hz, channels):
    file = io.BytesIO()
    noise = np.stack([NOISE] * channels, 1)
    soundfile.write(file, noise, rate_hz, format="MP3", bitrate_mode="VARIABLE")
    bare = without_info(file.getvalue())
    assert audio.probe(bare).num_frames == len(audio.load(bare, rate_hz)) >= 48_000


@pytest.mark.parametrize("container", ["AIFF", "AU", "W64", "RF64", "NIST"])
def test_rarer_formats_that_are_cut(container):
    content = encode(container, "PCM_16")
    assert len(audio.load(content, 16000)) == 48_000
    for num_bytes in (len(content) // 2, len(content) - 1):
        message = f"holds {num_bytes} of the {len(content)} bytes that its header claims; {AGAIN}"
        assert error_of(content[:num_bytes]) == ("truncated", message)


@pytest.mark.parametrize(
    "content",
    [
        b"<!DOCTYPE html>\n<html><head><title>404 Not Found</title>",
        b"\xef\xbb\xbf\r\n <?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>",
    ],
)
def test_web_pages(content):
    message = "is an HTML or XML page, not audio; download the recording itself"
    assert error_of(content) == ("html", message)


@pytest.mark.parametrize(
    "content",
    [b'{"error": "rate limit"}\n', "nicht gefunden: ä".encode() * 99, b"a", b"RIF"],
)
def test_other_text(content):
    assert error_of(content) == ("html", "is text, not audio; download the recording itself")


def test_text_that_is_cut_inside_a_character():
    text = ("x" + "ä" * 2000).encode()
    assert error_of(text) == ("html", "is text, not audio; download the recording itself")


def test_a_git_lfs_pointer():
    content = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
    assert error_of(content) == ("html", "is a Git LFS pointer, not audio; run `git lfs pull`")


@pytest.mark.parametrize("content", [bytes(1000), b"\x00\x00\x00\x20ftypM4A \x00\xff" * 99])
def test_bytes_that_are_no_sound(content):
    message = f"is not sound that can be read here (Format not recognised); {CONVERT}"
    assert error_of(content) == ("unreadable", message)


def test_an_unknown_codec_in_a_wav_file():
    content = bytearray(encode("WAV", "PCM_16"))
    content[20:22] = b"\x63\x00"
    reason, message = error_of(bytes(content))
    assert reason == "unreadable"
    assert message.startswith("is not sound that can be read here (Error in WAV")
    assert message.endswith(f"); {CONVERT}")


def test_files_that_cannot_be_opened(tmp_path):
    empty = tmp_path / "empty.wav"
    empty.touch()
    for path, reason, message in [
        (empty, "empty", "is an empty file; record it again or remove it"),
        (tmp_path / "no.wav", "missing", "no such file; check the path"),
        (empty / "a.wav", "missing", "no such file; check the path"),
        (
            tmp_path,
            "unreadable",
            "cannot be read (Is a directory); name a sound file you may read",
        ),
        (
            f"{tmp_path}/a\0b",
            "unreadable",
            "cannot be read (embedded null byte); name a sound file you may read",
        ),
    ]:
        assert error_of(path) == (reason, f"{os.fspath(path)}: {message}")
    assert error_of(b"") == ("empty", "is an empty file; record it again or remove it")


@pytest.mark.parametrize(
    ("container", "subtype"),
    [("WAV", "PCM_16"), ("FLAC", "PCM_16"), ("OGG", "OPUS"), ("OGG", "VORBIS")]
    + [("MP3", "MPEG_LAYER_III"), ("AIFF", "PCM_16"), ("WAV", "IMA_ADPCM")],
)
def test_random_damage_never_ends_in_another_error(container, subtype):
    """Whatever the bytes, the outcome is sound or an AudioError: never a crash, NaN or hang."""
    rng = np.random.default_rng(1)
    content = encode(container, subtype)[:20_000]
    outcomes = set()
    for _ in range(150):
        damaged = bytearray(content)
        for at in rng.integers(0, rng.choice([60, len(content)]), rng.integers(1, 6)):
            damaged[at] = rng.integers(0, 256)
        try:
            samples = audio.load(bytes(damaged[: rng.integers(1, len(content) + 1)]), 16000)
            assert np.isfinite(samples).all()
            outcomes.add("sound")
        except AudioError as error:
            assert "\n" not in str(error)
            assert error.reason in audio.REASONS
            outcomes.add(error.reason)
    assert "truncated" in outcomes
