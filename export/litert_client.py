#!/usr/bin/env python3
"""A client to port: recognises a wav file while it is read, with LiteRT alone, no TensorFlow.

Examples:
  pip install ai-edge-litert numpy
  python litert_client.py model.tflite recording.wav
"""

import json
import sys
import wave
import zipfile

import numpy as np
from ai_edge_litert.interpreter import Interpreter


class Recognizer:
    """Samples in pieces of any length to text, by greedy decoding."""

    def __init__(self, path: str, num_threads: int = 1) -> None:
        with zipfile.ZipFile(path) as archive:
            self.metadata = json.loads(archive.read("metadata.json"))
        self._interpreter = Interpreter(path, num_threads=num_threads)
        self._step = self._interpreter.get_signature_runner("stream_step")
        self._finish = self._interpreter.get_signature_runner("stream_finish")
        self.start()

    def start(self) -> None:
        """Begins a new stream."""
        self._state = {
            state["name"]: np.resize(np.array(state["start"], state["type"]), state["shape"])
            for state in self.metadata["state"]
        }
        self._waiting = np.zeros(0, np.float32)
        self._last_label = 0
        self._text = ""

    def accept(self, samples: np.ndarray) -> str:
        """Takes samples [S] float32 in [-1, 1], and returns the text so far."""
        self._waiting = np.concatenate([self._waiting, samples])
        size = self.metadata["chunk_samples"]
        while len(self._waiting) >= size:
            chunk, self._waiting = self._waiting[:size], self._waiting[size:]
            outputs = self._step(samples=chunk[np.newaxis], **self._state)
            self._state = {name: outputs[name] for name in self._state}
            self._decode(outputs)
        return self.text

    def finish(self) -> str:
        """Returns the whole text, and begins a new stream."""
        rest = np.zeros((1, self.metadata["chunk_samples"]), np.float32)
        rest[0, : len(self._waiting)] = self._waiting
        lengths = np.array([len(self._waiting)], np.int32)
        self._decode(self._finish(samples=rest, sample_lengths=lengths, **self._state))
        text = self.text
        self.start()
        return text

    @property
    def text(self) -> str:
        """What was said so far."""
        return " ".join(self._text.split())

    def _decode(self, outputs: dict[str, np.ndarray]) -> None:
        """Takes the best label of each frame; repeats merge, and 0, the blank, writes nothing."""
        for frame in outputs["log_probabilities"][0, : outputs["lengths"][0]]:
            label = int(np.argmax(frame))
            if label != self._last_label:
                self._text += self.metadata["labels"][label]
            self._last_label = label


def main(model: str, recording: str) -> None:
    """Prints the text as it grows, then all of it."""
    recognizer = Recognizer(model)
    rate = recognizer.metadata["sample_rate_hz"]
    with wave.open(recording) as file:
        if (file.getframerate(), file.getnchannels(), file.getsampwidth()) != (rate, 1, 2):
            sys.exit(f"error: {recording}: must be {rate} Hz, mono, 16 bits; convert it with sox")
        shown = ""
        while frames := file.readframes(rate // 10):
            text = recognizer.accept(np.frombuffer(frames, "<i2").astype(np.float32) / 32768)
            if text != shown:
                print(f"... {text}", flush=True)
                shown = text
    print(recognizer.finish())


if __name__ == "__main__":
    main(*sys.argv[1:])
