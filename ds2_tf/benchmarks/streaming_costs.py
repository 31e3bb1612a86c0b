"""What it costs to follow a stream, and how late the text comes."""

import dataclasses
import time
from collections.abc import Sequence

import numpy as np

from ds2_tf import config
from ds2_tf.acoustic_model import AcousticModel
from ds2_tf.alphabet import Alphabet
from ds2_tf.benchmarks.measurement import Row
from ds2_tf.model import DeepSpeech2
from ds2_tf.normalization import Normalization
from ds2_tf.streaming import StreamingModel
from ds2_tf.streaming_recognizer import StreamingRecognizer

_WARM_UP_SECONDS = 2.0
_UTTERANCE_SECONDS = 3.0


@dataclasses.dataclass(frozen=True)
class Costs:
    """Of a stream that comes in pieces of one length.

    Attributes:
      chunk_ms: the length.
      real_time_factor: CPU seconds for a second of audio.
      piece_ms: time by the clock that a piece takes, of which half of them take less.
      piece_98_ms: the same of 98 %.
      late_to_early: the CPU time of the stream's last quarter to that of its first.
      text_ms: time by the clock from an utterance's last sample to its final text: the last piece
        and the end. Half of the utterances take less.
      text_98_ms: the same of 98 %.
    """

    chunk_ms: float
    real_time_factor: float
    piece_ms: float
    piece_98_ms: float
    late_to_early: float
    text_ms: float
    text_98_ms: float


def random_model(run: config.RunConfig, num_labels: int) -> AcousticModel:
    """Returns a model of random weights whose symbols mean nothing."""
    bins = run.features.num_bins
    statistics = Normalization(np.zeros(bins, np.float32), np.ones(bins, np.float32))
    symbols = tuple(chr(0x4E00 + number) for number in range(num_labels - 1))
    network = DeepSpeech2(run.model, bins, num_labels)
    return AcousticModel(run, Alphabet(symbols), statistics, network)


def measure(
    model: StreamingModel, chunk_seconds: float, stream_seconds: float, num_utterances: int
) -> Costs:
    """Follows one stream of noise, then some utterances.

    Args:
      model: whatever its weights, the computing is the same.
      chunk_seconds: length of a piece.
      stream_seconds: length of the stream.
      num_utterances: of 3 seconds each, whose end is timed.
    """
    rate = model.model.sample_rate_hz
    noise = np.random.default_rng(0).normal(0, 0.1, round(20 * rate)).astype(np.float32)
    chunk = max(1, round(chunk_seconds * rate))
    recognizer = StreamingRecognizer(model)

    def follow(seconds: float) -> tuple[list[float], list[float]]:
        """Returns the wall and the CPU seconds of each piece."""
        walls, cpus = [], []
        for number in range(max(1, round(seconds / chunk_seconds))):
            first = number * chunk % (len(noise) - chunk)
            wall, cpu = time.perf_counter(), time.process_time()
            recognizer.accept(noise[first : first + chunk])
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
        return walls, cpus

    follow(_WARM_UP_SECONDS)
    recognizer.finish()
    walls, cpus = follow(stream_seconds)
    recognizer.start()
    ends = []
    for _ in range(num_utterances):
        *_, last = follow(_UTTERANCE_SECONDS)[0]
        start = time.perf_counter()
        recognizer.finish()
        ends.append(last + time.perf_counter() - start)
    quarter = max(1, len(cpus) // 4)
    return Costs(
        chunk_ms=1000 * chunk / rate,
        real_time_factor=sum(cpus) / (len(cpus) * chunk / rate),
        piece_ms=1000 * float(np.median(walls)),
        piece_98_ms=1000 * float(np.percentile(walls, 98)),
        late_to_early=sum(cpus[-quarter:]) / sum(cpus[:quarter]),
        text_ms=1000 * float(np.median(ends)),
        text_98_ms=1000 * float(np.percentile(ends, 98)),
    )


def rows(case: str, model: StreamingModel, costs: Sequence[Costs]) -> list[Row]:
    """Returns the results, those that all pieces share first.

    A text is as late as its computing takes when the stream ends; while it goes on the look-ahead
    comes on top, and on average half a piece.
    """
    network = model.model.network
    parameters = sum(int(np.prod(weight.shape)) for weight in network.trainable_weights)
    found = [
        Row(case, "parameters", parameters),
        Row(case, "look-ahead, ms", model.lookahead_ms),
    ]
    for cost in costs:
        title = f"{case}, pieces of {cost.chunk_ms:g} ms"
        found += [
            Row(title, "CPU s for a s of audio", cost.real_time_factor),
            Row(title, "piece, median ms", cost.piece_ms),
            Row(title, "piece, 98 % ms", cost.piece_98_ms),
            Row(title, "last quarter / first", cost.late_to_early),
            Row(title, "end of speech to text, median ms", cost.text_ms),
            Row(title, "end of speech to text, 98 % ms", cost.text_98_ms),
            Row(
                title,
                "sample to text in a stream, ms",
                model.lookahead_ms + cost.chunk_ms / 2 + cost.piece_ms,
            ),
        ]
    return found
