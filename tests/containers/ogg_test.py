import pytest

from ds2_tf import audio
from tests.containers.encoded import AGAIN, CONVERT, encode, error_of


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
