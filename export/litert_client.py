#!/usr/bin/env python3
"""A client to port: recognises a wav file while it is read, with LiteRT alone, no TensorFlow.

By default it decodes greedily. With a language model, or a folder that holds the decoder.json of
tools.tune_decoder, it searches by the library's C++ decoder, whose Python needs no TensorFlow.

Examples:
  pip install ai-edge-litert numpy
  python litert_client.py model.tflite recording.wav
  pip install absl-py && pip install --no-deps ds2_tf
  python litert_client.py --lm=english.binary model.tflite recording.wav
  python litert_client.py --settings=runs/phone model.tflite recording.wav
"""

import argparse
import dataclasses
import json
import sys
import wave
import zipfile
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter


class Recognizer:
    """Samples in pieces of any length to text, by greedy decoding or another decoder."""

    def __init__(self, path: str, num_threads: int = 1, decoder: Any = None) -> None:
        self._decoder = decoder
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
        self._search = self._decoder.stream() if self._decoder else None

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
        if self._search:
            self._text = "".join(symbol.text for symbol in self._search.finish())
        text = self.text
        self.start()
        return text

    @property
    def text(self) -> str:
        """What was said so far."""
        return " ".join(self._text.split())

    def _decode(self, outputs: dict[str, np.ndarray]) -> None:
        """Takes the best label of each frame; repeats merge, and 0, the blank, writes nothing."""
        frames = outputs["log_probabilities"][0, : outputs["lengths"][0]]
        if self._search:
            self._search.step(frames)
            self._text = "".join(symbol.text for symbol in self._search.partial())
            return
        for frame in frames:
            label = int(np.argmax(frame))
            if label != self._last_label:
                self._text += self.metadata["labels"][label]
            self._last_label = label


def beam_search(metadata: dict[str, Any], folder: str, language_model: str) -> Any:
    """Makes the decoder that a folder's decoder.json describes, or one with a language model."""
    from ds2_tf.alphabet import Alphabet
    from ds2_tf.decoding import settings
    from ds2_tf.errors import UserError

    symbols = tuple(metadata["labels"][1:])
    kind = "bigram" if max(map(len, symbols)) > 1 else "character"
    alphabet = Alphabet(symbols, "keep", metadata["language"], kind)
    try:
        found = settings.load(folder) if folder else settings.DecoderSettings("beam")
        if language_model:
            found = dataclasses.replace(found, language_model=language_model, sha256="")
        return found.make(alphabet, metadata["seconds_per_frame"])
    except UserError as error:
        sys.exit(f"error: {error}")


def main() -> None:
    """Prints the text as it grows, then all of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="what `python -m export --format=tflite` wrote")
    parser.add_argument("recording", help="16-bit wav file, mono, at the model's rate")
    parser.add_argument("--settings", default="", help="folder of decoder.json")
    parser.add_argument("--lm", default="", help="language model, instead of decoder.json's")
    arguments = parser.parse_args()
    recognizer = Recognizer(arguments.model)
    if arguments.settings or arguments.lm:
        decoder = beam_search(recognizer.metadata, arguments.settings, arguments.lm)
        recognizer = Recognizer(arguments.model, decoder=decoder)
    rate = recognizer.metadata["sample_rate_hz"]
    with wave.open(arguments.recording) as file:
        if (file.getframerate(), file.getnchannels(), file.getsampwidth()) != (rate, 1, 2):
            sys.exit(
                f"error: {arguments.recording}: must be {rate} Hz, mono, 16 bits; convert it with "
                "sox"
            )
        shown = ""
        while frames := file.readframes(rate // 10):
            text = recognizer.accept(np.frombuffer(frames, "<i2").astype(np.float32) / 32768)
            if text != shown:
                print(f"... {text}", flush=True)
                shown = text
    print(recognizer.finish())


if __name__ == "__main__":
    main()
