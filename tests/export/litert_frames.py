"""Runs a LiteRT file where no TensorFlow is: litert_frames.py MODEL WAVEFORMS.npz OUTPUT.npz.

For each waveform the output has the frames of the stream, how many each step gave, the text, and
the frames of the whole.
"""

import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from export.litert_client import Recognizer


class Collector(Recognizer):
    def _decode(self, outputs):
        super()._decode(outputs)
        frames = outputs["log_probabilities"][0]
        assert not frames[outputs["lengths"][0] :].any(), "not zero past the length"
        self.collected.append(frames[: outputs["lengths"][0]])


def main(model, waveforms_path, output):
    found = {}
    interpreter = Interpreter(model)
    streams = "stream_step" in interpreter.get_signature_list()
    whole = interpreter.get_signature_runner("transcribe")
    if streams:
        recognizer = Collector(model)
    with np.load(waveforms_path) as waveforms:
        for name in waveforms.files:
            if streams:
                recognizer.collected = []
                recognizer.accept(waveforms[name])
                found[f"{name}_text"] = recognizer.finish()
                found[f"{name}_stream"] = np.concatenate(recognizer.collected)
                found[f"{name}_steps"] = [len(frames) for frames in recognizer.collected]
            if len(waveforms[name]):
                outputs = whole(waveform=waveforms[name][np.newaxis])
                frames = outputs["log_probabilities"][0, : outputs["lengths"][0]]
                found[f"{name}_whole"] = frames
    np.savez(output, tensorflow="tensorflow" in sys.modules, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
