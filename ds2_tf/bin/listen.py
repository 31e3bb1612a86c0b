r"""Write what is being said, sentence by sentence, from a microphone or a pipe of raw samples.

Without a pipe it listens to the default microphone. A pipe brings 16-bit little-endian samples of
one channel, at --rate_hz. On a terminal the sentence being spoken is shown as it grows; each
sentence is written on a line of its own when it ends. Ctrl-C ends the stream. The model must be
forward-only.

Examples:
  ds2 listen --workdir=runs/streaming
  ds2 listen --workdir=runs/streaming --lm=english.binary --hot_words="ann:5,new york:3"
  arecord -q -f S16_LE -r 16000 -c 1 -t raw | ds2 listen --workdir=runs/streaming
  ffmpeg -loglevel error -i talk.mp3 -f s16le -ac 1 -ar 16000 - | \
      ds2 listen --workdir=runs/streaming --format=json --silence_seconds=0.5
"""

import math
import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from absl import flags

from ds2_tf.bin import adaptation_flag, decoder_flags, program

if TYPE_CHECKING:
    from ds2_tf.streaming_recognizer import StreamingRecognizer
    from ds2_tf.transcript import Transcript

_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the trained model.")
_RATE_HZ = flags.DEFINE_integer("rate_hz", None, "Of the pipe; the model's by default.", 1)
_FORMAT = flags.DEFINE_enum("format", "text", ["text", "json"], "What to write.")
_SILENCE = flags.DEFINE_float(
    "silence_seconds", 0.8, "A sentence ends after this silence; 0: not for silence.", 0.0
)
_STABILITY = flags.DEFINE_float(
    "stability_seconds", 3.0, "Or after its text was the same for so long; 0: never.", 0.0
)
_SENTENCE = flags.DEFINE_float(
    "sentence_seconds", 30.0, "Or between two words after so long; 0: never.", 0.0
)
flags.adopt_module_key_flags(adaptation_flag)
flags.adopt_module_key_flags(decoder_flags)
_BLOCK_SECONDS = 0.1


def main(arguments: list[str]) -> int:
    """Listens."""
    if arguments:
        raise program.UsageError(f"unexpected argument {arguments[0]!r}; files are for transcribe")
    if not _WORKDIR.value:
        raise program.UsageError("--workdir is required")
    settings = decoder_flags.read(_WORKDIR.value)
    program.load_tensorflow()
    from ds2_tf import live_audio, transcript_formats
    from ds2_tf.acoustic_model import AcousticModel
    from ds2_tf.endpointing import EndpointRules
    from ds2_tf.streaming import StreamingModel
    from ds2_tf.streaming_recognizer import StreamingRecognizer

    model = AcousticModel.load(_WORKDIR.value)
    model = adaptation_flag.applied_to(model)
    times = (_SILENCE.value, _STABILITY.value, _SENTENCE.value)
    rules = EndpointRules(*(seconds or math.inf for seconds in times))
    decoder = decoder_flags.made_for(model, settings)
    recognizer = StreamingRecognizer(StreamingModel(model), rules, decoder)
    rate = model.sample_rate_hz
    if sys.stdin.isatty():
        blocks = live_audio.microphone(rate, _BLOCK_SECONDS)
    else:
        blocks = live_audio.pcm(sys.stdin.fileno(), _RATE_HZ.value or rate, rate)
    page = _Page(transcript_formats.WRITERS[_FORMAT.value])
    try:
        for block in blocks:
            recognizer.accept(block)
            for sentence in recognizer.sentences():
                page.write(sentence)
            if page.shows:
                page.show(recognizer.partial().text)
    except KeyboardInterrupt:
        _finish(recognizer, page)
        raise
    _finish(recognizer, page)
    return 0


def _finish(recognizer: "StreamingRecognizer", page: "_Page") -> None:
    last = recognizer.finish()
    for sentence in (*recognizer.sentences(), last):
        if sentence.words:
            page.write(sentence)
    page.show("")


class _Page:
    """Sentences on standard output; on a terminal, the one being spoken below them."""

    def __init__(self, write: Callable[["Transcript"], str]) -> None:
        self._write = write
        self._columns = shutil.get_terminal_size().columns - 1 if sys.stdout.isatty() else 0

    @property
    def shows(self) -> bool:
        """Whether anybody sees the sentence being spoken."""
        return bool(self._columns)

    def write(self, sentence: "Transcript") -> None:
        self.show("")
        print(self._write(sentence), end="", flush=True)

    def show(self, text: str) -> None:
        if self._columns:
            print(f"\r\x1b[K{text[-self._columns :]}", end="", flush=True)


if __name__ == "__main__":
    program.run(main)
