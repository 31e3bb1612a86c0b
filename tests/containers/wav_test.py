import io
import struct

import numpy as np
import pytest
import soundfile

from ds2_tf import audio
from ds2_tf.audio import AudioError
from ds2_tf.containers import wav

RATE, CHANNELS, FRAME_BYTES, BITS, BYTE_RATE, DATA_SIZE = 24, 22, 32, 34, 28, 40  # Offsets.
REWRITE = "write it again with `ffmpeg -i FILE NEW.wav`"
SAMPLES = np.random.default_rng(0).integers(-9999, 9999, 4000).astype(np.int16)


def encode(subtype="PCM_16"):
    file = io.BytesIO()
    soundfile.write(file, SAMPLES, 16000, format="WAV", subtype=subtype)
    return file.getvalue()


def with_field(offset, value, content=None):
    content = bytearray(encode() if content is None else content)
    form = "<H" if offset in (CHANNELS, FRAME_BYTES, BITS, 20) else "<I"
    struct.pack_into(form, content, offset, value)
    return bytes(content)


def chunk(name, content):
    return name + struct.pack("<I", len(content)) + content


def error_of(content):
    with pytest.raises(AudioError) as loading:
        audio.load(content, 16000)
    with pytest.raises(AudioError) as probing:
        audio.probe(content)
    assert str(loading.value) == str(probing.value)
    name = f"<{len(content)} bytes>: "
    assert str(loading.value).startswith(name)
    return loading.value.reason, str(loading.value).removeprefix(name)


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0xFFFFFFFF - 36, 0x7FFFFFFF, 0x7FFFF000, 1 << 31])
@pytest.mark.parametrize("riff_size", [0, 0xFFFFFFFF])
def test_sizes_left_open_by_programs_that_write_to_pipes(size, riff_size):
    content = with_field(4, riff_size, with_field(DATA_SIZE, size))
    np.testing.assert_array_equal(audio.load(content, 16000), audio.load(encode(), 16000))
    assert audio.probe(content).num_frames == 4000
    blocks = list(audio.blocks(content, 16000, 0.01))
    np.testing.assert_array_equal(np.concatenate(blocks), SAMPLES / np.float32(32768))


def test_ffmpeg_writes_a_list_chunk_before_samples_of_open_size():
    content = encode()
    content = content[:36] + chunk(b"LIST", b"INFOISFT\x05\0\0\0Lavf\0") + b"\0" + content[36:]
    at = content.index(b"data") + 4
    content = content[:at] + b"\xff\xff\xff\xff" + content[at + 4 :]
    np.testing.assert_array_equal(audio.load(content, 16000), SAMPLES / np.float32(32768))


@pytest.mark.parametrize(
    "rest",
    [
        chunk(b"LIST", b"INFOICMT" + struct.pack("<I", 600) + b"x" * 600),
        chunk(b"id3 ", b"\x01" * 601),
        b"\0" * 5000,
        b"TAG" + b"\xff" * 125,
        b"\r\n",
    ],
)
def test_chunks_tags_and_padding_after_the_samples(rest):
    np.testing.assert_array_equal(audio.load(encode() + rest, 16000), SAMPLES / np.float32(32768))


@pytest.mark.parametrize(
    ("offset", "value", "detail"),
    [
        (RATE, 0, "claims a sample rate of 0 Hz"),
        (
            RATE,
            8000,
            "claims 8000 Hz and 32000 bytes a second, but that rate makes 16000",
        ),
        (CHANNELS, 0, "claims 0 channels"),
        (
            CHANNELS,
            2,
            "claims 2 bytes a frame, but channels x bits (2 x 16) make 4",
        ),
        (FRAME_BYTES, 0, "claims 0 bytes a frame, but channels x bits (1 x 16) make 2"),
        (FRAME_BYTES, 4, "claims 4 bytes a frame, but channels x bits (1 x 16) make 2"),
        (BITS, 0, "claims 0 bits a sample"),
        (BITS, 8, "claims 2 bytes a frame, but channels x bits (1 x 8) make 1"),
        (
            BYTE_RATE,
            16000,
            "claims 16000 Hz and 16000 bytes a second, but that rate makes 32000",
        ),
        (
            DATA_SIZE,
            4000,
            "claims 4000 bytes of samples, but 4000 bytes that belong to no chunk follow them",
        ),
        (16, 8, "has a format chunk of 8 bytes"),
    ],
)
def test_a_header_that_contradicts_itself(offset, value, detail):
    assert error_of(with_field(offset, value)) == ("bad_header", f"{detail}; {REWRITE}")


@pytest.mark.parametrize("rate", [1, 999, 1_000_001, 2**31 - 1])
def test_a_rate_out_of_any_range(rate):
    content = with_field(BYTE_RATE, 0, with_field(RATE, rate))
    detail = f"claims a sample rate of {rate} Hz; {REWRITE}"
    assert error_of(content) == ("bad_header", detail)


def test_samples_before_their_format():
    content = encode()
    content = content[:12] + content[36:] + content[12:36]
    detail = f"has its samples before its format; {REWRITE}"
    assert error_of(content) == ("bad_header", detail)


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_24", "FLOAT", "ULAW", "IMA_ADPCM", "GSM610"])
@pytest.mark.parametrize("keep", [0.3, 0.9])
def test_a_truncated_file_of_any_codec(subtype, keep):
    content = encode(subtype)
    reason, message = error_of(content[: int(len(content) * keep)])
    assert reason == "truncated"
    assert message.endswith(" bytes of samples that its header claims; copy or download it again")


@pytest.mark.parametrize(
    ("num_bytes", "detail"),
    [
        (8043, "holds 7999 of the 8000 bytes of samples that its header claims"),
        (44, "holds 0 of the 8000 bytes of samples that its header claims"),
        (43, "ends after 43 bytes, before its samples begin"),
        (36, "ends after 36 bytes, before its samples begin"),
        (30, "ends inside its header after 30 bytes"),
        (12, "ends after 12 bytes, before its samples begin"),
        (4, "ends after 4 bytes, before its samples begin"),
    ],
)
def test_a_wav_file_cut_anywhere(num_bytes, detail):
    cut = encode()[:num_bytes]
    assert error_of(cut) == ("truncated", f"{detail}; copy or download it again")


def test_a_claim_just_above_the_size():
    content = with_field(DATA_SIZE, 8001)
    detail = "holds 8000 of the 8001 bytes of samples that its header claims"
    assert error_of(content) == ("truncated", f"{detail}; copy or download it again")


def test_no_samples_at_all():
    content = with_field(DATA_SIZE, 0, encode()[:44])
    with pytest.raises(AudioError, match="holds no samples; record it again or remove it") as error:
        audio.load(content, 16000)
    assert error.value.reason == "empty"
    assert audio.probe(content).num_frames == 0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_samples_that_are_not_finite(value):
    samples = np.zeros(100_000, np.float32)
    samples[70_000] = value
    file = io.BytesIO()
    soundfile.write(file, samples, 16000, format="WAV", subtype="FLOAT")
    with pytest.raises(AudioError, match="holds samples that are not finite numbers; ") as error:
        audio.load(file.getvalue(), 16000)
    assert error.value.reason == "unreadable"


def test_the_format_of_plain_and_extensible_headers():
    for container, subtype, tag, bits in [
        ("WAV", "PCM_24", wav.PCM, 24),
        ("WAVEX", "PCM_16", wav.PCM, 16),
        ("WAVEX", "FLOAT", wav.FLOAT, 32),
    ]:
        file = io.BytesIO()
        stereo = np.zeros((10, 2))
        soundfile.write(file, stereo, 22050, format=container, subtype=subtype)
        found, splice = wav.check(file, len(file.getvalue()))
        assert found == wav.WavFormat(tag, 2, 22050, bits, data_bytes=10 * 2 * bits // 8)
        assert splice is None
