import numpy as np
import pytest

from ds2_tf import alphabet
from ds2_tf.decoding.greedy_stream import GreedyDecoder
from ds2_tf.transcript import Symbol
from tests.decoding.beams import beam

LETTERS = alphabet.from_transcripts(["a b"])
SPACE, A, B = (LETTERS.symbols.index(symbol) + 1 for symbol in " ab")


def frames_of(labels):
    log_probs = np.full((len(labels), LETTERS.num_labels), np.log(0.01), np.float32)
    log_probs[np.arange(len(labels)), labels] = np.log(0.97)
    return log_probs


def decoders():
    return GreedyDecoder(LETTERS, 0.5), beam(LETTERS, seconds_per_frame=0.5)


def test_both_decoders_give_the_same_kind_of_symbols():
    labels = [0, A, A, B, SPACE, 0, B]
    log_probs = np.stack([frames_of(labels), frames_of(labels[::-1])])
    log_probs[1, 5:] = np.nan
    for decoder in decoders():
        first, second = decoder.decode(log_probs, np.int32([7, 5]))
        assert all(type(symbol) is Symbol for symbol in first)
        assert [symbol[:3] for symbol in first] == [
            ("a", 0.5, 1.5),
            ("b", 1.5, 2.0),
            (" ", 2.0, 2.5),
            ("b", 3.0, 3.5),
        ]
        assert all(0.8 < symbol.confidence <= 1 for symbol in first)
        assert "".join(symbol.text for symbol in second) == "b ba"
        assert decoder.decode(log_probs[:, :0], np.int32([0, 0])) in ([[], []], [(), ()])


@pytest.mark.parametrize("size", [1, 2, 9])
@pytest.mark.parametrize("ends", ["finish", "reset"])
def test_a_new_text_has_nothing_of_the_last_one_and_times_go_on(size, ends):
    labels = [A, 0, B, B, *(B, B, A, 0, A)]
    log_probs = frames_of(labels)
    for decoder in decoders():
        stream = decoder.stream()
        stream.step(log_probs[:4])
        getattr(stream, ends)()
        assert list(stream.partial()) == []
        for first in range(4, 9, size):
            stream.step(log_probs[first : min(first + size, 9)])
        stream.step(log_probs[:0])
        expected = [("a", 3.0, 3.5), ("a", 4.0, 4.5)]
        assert [symbol[:3] for symbol in stream.partial()] == expected
        assert [symbol[:3] for symbol in stream.finish()] == expected


def test_the_symbol_itself_may_come_again():
    stream = decoders()[1].stream()
    for labels, text in (([A, A], "a"), ([A, 0, A], "a"), ([B, A], "ba")):
        stream.step(frames_of(labels))
        assert "".join(symbol.text for symbol in stream.finish()) == text
