import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds2_tf import alphabet
from ds2_tf.decoding import greedy
from ds2_tf.decoding.greedy_stream import GreedyDecoder, GreedyStream

LETTERS = alphabet.from_transcripts(["a b"])


def frames_of(labels, seed):
    generator = np.random.default_rng(seed)
    logits = generator.uniform(0, 1, (len(labels), LETTERS.num_labels))
    logits[np.arange(len(labels)), labels] += 2
    return (logits - np.log(np.exp(logits).sum(-1, keepdims=True))).astype(np.float32)


@given(
    st.lists(st.integers(0, LETTERS.num_labels - 1), max_size=40),
    st.integers(0, 9),
    st.integers(1, 41),
)
def test_equals_the_decoder_in_graphs_whatever_the_pieces(labels, seed, size):
    log_probs = frames_of(np.array(labels, int), seed)
    stream = GreedyStream(LETTERS, 0.5)
    for first in range(0, len(labels), size):
        stream.step(log_probs[first : first + size])
    runs = greedy.greedy_runs(log_probs[np.newaxis], np.int32([len(labels)]))
    expected = [
        (LETTERS.decode([label]), first / 2, end / 2)
        for label, first, end in zip(*(part.to_list()[0] for part in runs[:3]), strict=True)
    ]
    assert [symbol[:3] for symbol in stream.partial()] == expected
    np.testing.assert_allclose(
        [symbol.confidence for symbol in stream.partial()],
        np.exp(runs.log_probabilities.to_list()[0]),
        rtol=1e-6,
    )
    assert stream.num_frames == len(labels)
    decoder = GreedyDecoder(LETTERS, 0.5)
    assert decoder.decode(log_probs[np.newaxis], [len(labels)]) == [stream.partial()]


def test_what_is_forgotten_does_not_come_back_and_times_go_on():
    space, a = (LETTERS.symbols.index(symbol) + 1 for symbol in " a")
    stream = GreedyStream(LETTERS, 0.5)
    stream.step(frames_of([a, 0, space, a], 0))
    assert [symbol[:3] for symbol in stream.finish()] == [
        *[("a", 0.0, 0.5), (" ", 1.0, 1.5), ("a", 1.5, 2.0)]
    ]
    assert stream.partial() == []
    stream.step(frames_of([a, 0, a], 0))  # The first is the rest of the last text's.
    assert [symbol[:3] for symbol in stream.partial()] == [("a", 3.0, 3.5)]


def test_hot_words_need_a_search():
    with pytest.raises(ValueError, match="a greedy decoder takes no hot words; use beam search"):
        GreedyDecoder(LETTERS, 0.5).stream({"a": 1.0})
