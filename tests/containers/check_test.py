import os

import numpy as np
import pytest

from ds2_tf import audio
from ds2_tf.audio import AudioError
from tests.containers.encoded import AGAIN, CONVERT, encode, error_of


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
    [
        ("WAV", "PCM_16"),
        ("WAV", "IMA_ADPCM"),
        ("FLAC", "PCM_16"),
        ("OGG", "OPUS"),
        ("OGG", "VORBIS"),
        ("MP3", "MPEG_LAYER_III"),
        ("AIFF", "PCM_16"),
    ],
)
def test_random_damage_never_ends_in_another_error(container, subtype):
    """Whatever the bytes, the outcome is sound or an AudioError: no crash, no NaN, no hang."""
    rng = np.random.default_rng(1)
    content = encode(container, subtype)[:20_000]
    errors = []
    for _ in range(150):
        damaged = bytearray(content)
        for at in rng.integers(0, rng.choice([60, len(content)]), rng.integers(1, 6)):
            damaged[at] = rng.integers(0, 256)
        try:
            samples = audio.load(bytes(damaged[: rng.integers(1, len(content) + 1)]), 16000)
        except AudioError as error:
            errors.append(error)
        else:
            assert np.isfinite(samples).all()
    assert {error.reason for error in errors} <= set(audio.REASONS)
    assert "truncated" in {error.reason for error in errors}
    assert not any("\n" in str(error) for error in errors)
