import io

import numpy as np
import pytest
import soundfile

from ds2_tf import audio
from ds2_tf.containers import mp3 as mp3_frames
from tests.containers.encoded import AGAIN, NOISE, encode, error_of


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
    delay = (
        529  # The decoder takes off its own delay, for want of a header that tells the encoder's.
    )
    assert audio.probe(bare).num_frames == len(samples) == 86 * 576 - delay
    np.testing.assert_array_equal(samples[1105 - delay :][:40_000], audio.load(mp3, 16000)[:40_000])
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
    np.testing.assert_array_equal(audio.load(bare, 16000), audio.load(bare[len(tag) :], 16000))


@pytest.mark.parametrize("rate_hz", [8000, 11025, 12000, 22050, 24000, 32000, 44100, 48000])
@pytest.mark.parametrize("channels", [1, 2])
def test_mp3_frames_of_every_rate_are_counted(rate_hz, channels):
    file = io.BytesIO()
    noise = np.stack([NOISE] * channels, 1)
    soundfile.write(file, noise, rate_hz, format="MP3", bitrate_mode="VARIABLE")
    bare = without_info(file.getvalue())
    assert audio.probe(bare).num_frames == len(audio.load(bare, rate_hz)) >= 48_000


def test_an_mp3_file_that_lacks_whole_frames(mp3):
    """Its header tells the number of frames but not of bytes; the cut lies between two frames."""
    bare = without_info(mp3)
    header = mp3_frames._xing_frame(bare[:4], 86 + 10)
    message = f"is cut off or damaged: its 3.42 seconds cannot be decoded to the end; {AGAIN}"
    assert error_of(header + bare) == ("truncated", message)
    assert len(audio.load(mp3_frames._xing_frame(bare[:4], 86) + bare, 16000)) == 86 * 576 - 529
