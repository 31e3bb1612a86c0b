import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ds2_tf import alphabet
from ds2_tf.decoding import greedy
from ds2_tf.decoding.greedy_stream import GreedyStream

LETTERS = alphabet.from_transcripts(["a b"])


def frames_of(labels, seed):
    generator = np.random.default_rng(seed)
    logits = generator.uniform(0, 1, (len(labels), LETTERS.num_labels))
    logits[np.arange(len(labels)), labels] += 2
    return (logits - np.log(np.exp(logits).sum(-1, keepdims=True))).astype(np.float32)


@given(st.lists(st.integers(0, LETTERS.num_labels - 1), max_size=40), st.integers(0, 9))
def test_equals_the_decoder_of_whole_utterances(labels, seed):
    log_probs = frames_of(np.array(labels, int), seed)
    stream = GreedyStream(LETTERS, 0.5)
    for frame in log_probs:
        stream.step(frame)
    runs = greedy.greedy_runs(log_probs[np.newaxis], np.int32([len(labels)]))
    expected = [
        (LETTERS.decode([label]), first / 2, end / 2)
        for label, first, end in zip(*(part.to_list()[0] for part in runs[:3]), strict=True)
    ]
    assert [symbol[:3] for symbol in stream.symbols] == expected
    np.testing.assert_allclose(
        [symbol.confidence for symbol in stream.symbols],
        np.exp(runs.log_probabilities.to_list()[0]),
        rtol=1e-6,
    )
    assert stream.num_frames == len(labels)


def test_what_is_forgotten_does_not_come_back_and_times_go_on():
    space, a = (LETTERS.symbols.index(symbol) + 1 for symbol in " a")
    stream = GreedyStream(LETTERS, 0.5)
    for label in (a, 0, space):
        stream.step(frames_of([label], 0)[0])
    assert (stream.last_change, stream.last_sound) == (3, 1)
    stream.forget_symbols()
    assert (stream.symbols, stream.last_sound) == ([], 3)
    stream.step(frames_of([a], 0)[0])
    assert [symbol[:3] for symbol in stream.symbols] == [("a", 1.5, 2.0)]
