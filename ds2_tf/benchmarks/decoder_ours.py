"""Our beam search as a contender, and what only it is asked: long streams, threads."""

import gc
import multiprocessing
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ds2_tf.benchmarks import resident
from ds2_tf.benchmarks.decoder_client import Decoded
from ds2_tf.benchmarks.posteriors import Posteriors
from ds2_tf.decoding.beam_search import BeamSearchDecoder, BeamSearchOptions
from ds2_tf.decoding.language_model import LanguageModel


class OurSearch:
    """A `decoder_contest.Searcher`; its settings are those of `BeamSearchOptions`."""

    def __init__(self, language_model: LanguageModel | None) -> None:
        self._language_model = language_model
        self._ready: dict[str, tuple[BeamSearchDecoder, Posteriors]] = {}

    def prepare(
        self, name: str, system: str, posteriors: Posteriors, settings: Mapping[str, Any]
    ) -> None:
        """Makes a decoder ready to run under a name."""
        self._ready[name] = self.decoder(posteriors, settings), posteriors

    def decoder(self, posteriors: Posteriors, settings: Mapping[str, Any]) -> BeamSearchDecoder:
        """Returns a decoder for a set of utterances."""
        return BeamSearchDecoder(
            posteriors.alphabet,
            BeamSearchOptions(**{"num_hypotheses": 1, **settings}),
            self._language_model,
            seconds_per_frame=posteriors.seconds_per_frame,
        )

    def run(self, name: str, first: int, count: int) -> Decoded:
        """Decodes some utterances of the set, one by one."""
        decoder, posteriors = self._ready[name]
        found = Decoded([], [])
        for log_probs in posteriors.log_probs[first : first + count]:
            start = time.process_time()
            hypotheses = decoder.decode(log_probs[None], np.array([len(log_probs)]))[0]
            text = hypotheses[0].text if hypotheses else ""
            found.cpu_seconds.append(time.process_time() - start)
            found.texts.append(text)
        return found


def two_threads_seconds(
    decoder: BeamSearchDecoder, posteriors: Posteriors, passes: int
) -> tuple[float, float]:
    """Returns how long two threads, and two processes of a thread each, take for the utterances.

    By the clock, the shortest of the passes, which take turns. Both hold the utterances already.
    """
    lengths = np.array([len(frames) for frames in posteriors.log_probs])
    batch = np.zeros((len(lengths), lengths.max(), posteriors.alphabet.num_labels), np.float32)
    for row, frames in zip(batch, posteriors.log_probs, strict=True):
        row[: len(frames)] = frames
    context = multiprocessing.get_context("spawn")
    pipes, workers = [], []
    for half in (slice(0, None, 2), slice(1, None, 2)):
        ours, theirs = context.Pipe()
        worker = context.Process(
            target=_decode_on_request, args=(decoder, batch[half], lengths[half], theirs)
        )
        worker.start()
        theirs.close()
        pipes.append(ours)
        workers.append(worker)
    for pipe in pipes:
        pipe.recv()
    decoder.decode(batch, lengths, num_threads=2)
    threads, processes = [], []
    for _ in range(passes):
        start = time.perf_counter()
        decoder.decode(batch, lengths, num_threads=2)
        threads.append(time.perf_counter() - start)
        start = time.perf_counter()
        for pipe in pipes:
            pipe.send(True)
        for pipe in pipes:
            pipe.recv()
        processes.append(time.perf_counter() - start)
    for pipe, worker in zip(pipes, workers, strict=True):
        pipe.send(False)
        worker.join()
    return min(threads), min(processes)


def _decode_on_request(
    decoder: BeamSearchDecoder, batch: np.ndarray, lengths: np.ndarray, pipe: Any
) -> None:
    decoder.decode(batch, lengths)
    pipe.send(True)
    while pipe.recv():
        decoder.decode(batch, lengths)
        pipe.send(True)


def stream_costs(
    decoder: BeamSearchDecoder, log_probs: Sequence[np.ndarray], num_frames: int, chunk: int = 50
) -> list[tuple[int, float]]:
    """Feeds one stream without any end of a sentence, a chunk of frames at a time.

    Args:
      decoder: with the settings to measure.
      log_probs: [T, V] of utterances, repeated until the stream is long enough.
      num_frames: length of the stream.
      chunk: frames of a step.

    Returns:
      After each tenth of the stream the resident bytes and the CPU seconds of that tenth.
    """
    sound = np.concatenate(log_probs)
    stream = decoder.stream()
    found = []
    tenth = max(1, num_frames // 10 // chunk)
    for _ in range(10):
        start = time.process_time()
        for _ in range(tenth):
            first = stream.num_frames % max(1, len(sound) - chunk)
            stream.step(sound[first : first + chunk])
        seconds = time.process_time() - start
        gc.collect()
        found.append((resident.resident_bytes(), seconds))
    return found
