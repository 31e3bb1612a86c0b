import io

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


def test_a_damaged_page_is_no_silence(ogg):
    pages = [at for at in range(len(ogg)) if ogg.startswith(b"OggS", at)]
    assert len(pages) >= 3
    for page, at in ((pages[-1], len(ogg) - 1), (pages[2], pages[2] + 20)):
        damaged = bytearray(ogg)
        damaged[at] ^= 0x40
        message = f"is damaged in the ogg page at byte {page}; {AGAIN}"
        assert error_of(bytes(damaged)) == ("truncated", message)


def test_joined_ogg_streams_are_not_read_as_one(ogg):
    message = f"holds several ogg streams in a row, of which only the first is read; {CONVERT}"
    assert error_of(ogg + ogg) == ("unreadable", message)
    assert len(audio.load(ogg + bytes(1000), 16000)) == 48_000
