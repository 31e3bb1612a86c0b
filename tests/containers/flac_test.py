import io

import numpy as np
import pytest
import soundfile

from ds2_tf import audio
from ds2_tf.audio import AudioError
from ds2_tf.containers import flac

STREAM_INFO = slice(8, 42)


def encode(num_samples, rate_hz=16000, channels=1, subtype="PCM_16"):
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, (num_samples, channels))
    file = io.BytesIO()
    soundfile.write(file, noise, rate_hz, format="FLAC", subtype=subtype)
    return file.getvalue()


def with_total(content, num_samples):
    """Writes another number of samples into the header."""
    content = bytearray(content)
    packed = int.from_bytes(content[18:26], "big")
    packed = packed >> 36 << 36 | num_samples
    content[18:26] = packed.to_bytes(8, "big")
    return bytes(content)


@pytest.mark.parametrize("rate_hz", [8000, 11025, 16000, 44100, 48000])
@pytest.mark.parametrize(
    ("channels", "subtype", "bits"), [(1, "PCM_16", 16), (2, "PCM_24", 24), (3, "PCM_S8", 8)]
)
def test_the_header_of_every_kind(rate_hz, channels, subtype, bits):
    content = encode(9000, rate_hz, channels, subtype)
    info = flac.read_stream_info(content[STREAM_INFO])
    assert (info.sample_rate_hz, info.num_channels, info.bits) == (rate_hz, channels, bits)
    assert info.num_frames == 9000
    assert any(info.md5)
    for is_whole in (True, False):
        assert flac.count_by_last_frame(content, info, is_whole) == 9000


@pytest.mark.parametrize("num_samples", [1, 191, 192, 4095, 4096, 4097, 4096 * 130, 600_001])
def test_the_last_frame_counts_the_samples(num_samples):
    """600,001 samples need frame numbers of two bytes and a last block size of its own."""
    content = encode(num_samples)
    info = flac.read_stream_info(content[STREAM_INFO])
    assert flac.count_by_last_frame(content[-(1 << 18) :], info) == num_samples


def test_a_cut_or_damaged_end_is_not_a_whole_frame():
    content = encode(9000)
    info = flac.read_stream_info(content[STREAM_INFO])
    damaged = content[:-100] + bytes([content[-100] ^ 1]) + content[-99:]
    for spoiled in (content[:-1], content[: len(content) // 2], damaged, content + b"TAG"):
        assert flac.count_by_last_frame(spoiled, info) is None


def test_a_header_that_leaves_its_length_open():
    """As encoders write it that cannot go back: `ffmpeg -f flac -`."""
    content = encode(200_000)
    left_open = with_total(content, 0)
    np.testing.assert_array_equal(audio.load(left_open, 16000), audio.load(content, 16000))
    assert audio.probe(left_open).num_frames == 200_000


@pytest.mark.parametrize(
    ("claimed", "reason", "message"),
    [
        (
            9001,
            "truncated",
            "holds 9000 samples, but its header claims 9001; copy or download it again",
        ),
        (
            8000,
            "bad_header",
            "holds 9000 samples, but its header claims 8000; write it again with `ffmpeg -i FILE "
            "NEW.wav`",
        ),
    ],
)
def test_a_header_that_lies_about_the_length(claimed, reason, message):
    content = with_total(encode(9000), claimed)
    for use in (audio.probe, lambda source: audio.load(source, 16000)):
        with pytest.raises(AudioError) as error:
            use(content)
        assert error.value.reason == reason
        assert str(error.value) == f"<{len(content)} bytes>: {message}"


def test_a_file_cut_between_two_frames_or_inside_one():
    content = encode(48_000)
    info = flac.read_stream_info(content[STREAM_INFO])
    frame_starts = [
        at
        for at in range(42, len(content) - 6)
        if content[at : at + 2] == b"\xff\xf8"
        and flac.count_by_last_frame(content[at:][:16], info, is_whole=False)
    ]
    assert len(frame_starts) == 12
    for cut_at, detail in [
        (frame_starts[6], "holds 24576 samples, but its header claims 48000"),
        (
            frame_starts[6] + 999,
            "is cut off or damaged: its 3.00 seconds cannot be decoded to the end",
        ),
        (
            len(content) - 1,
            "is cut off or damaged: its 3.00 seconds cannot be decoded to the end",
        ),
    ]:
        with pytest.raises(AudioError) as error:
            audio.load(content[:cut_at], 16000)
        assert error.value.reason == "truncated"
        assert str(error.value) == f"<{cut_at} bytes>: {detail}; copy or download it again"


def test_damage_in_the_middle_is_no_silence():
    content = bytearray(encode(48_000))
    content[len(content) // 2] ^= 0x55
    with pytest.raises(AudioError, match="is cut off or damaged: its 3.00 seconds cannot be"):
        audio.load(bytes(content), 16000)


def test_headers_without_a_rate_or_cut():
    content = bytearray(encode(9000))
    content[18] = content[19] = 0
    content[20] &= 0x0F
    with pytest.raises(AudioError, match="has a flac header without a sample rate; ") as error:
        audio.load(bytes(content), 16000)
    assert error.value.reason == "bad_header"
    for num_bytes in (4, 20, 41):
        with pytest.raises(AudioError) as error:
            audio.load(encode(9000)[:num_bytes], 16000)
        assert error.value.reason == "truncated"
        assert error.value.detail == f"ends inside its header after {num_bytes} bytes"
