"""Sound files made in memory, and the errors that damaged ones give."""

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
