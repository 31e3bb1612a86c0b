import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ds2_tf.errors import UserError
from ds2_tf.streaming import AudioStream, StreamingModel
from tests.streaming_models import FEATURES, MODELS, RATE, make_model, sound


@pytest.fixture(scope="module")
def streaming_models():
    made = {}

    def get(model, features):
        if (model, features) not in made:
            made[model, features] = StreamingModel(make_model(MODELS[model], FEATURES[features]))
        return made[model, features]

    return get


def offline(streaming_model, samples):
    log_probs, lengths = streaming_model.model.log_probabilities(
        samples[np.newaxis], tf.constant([len(samples)])
    )
    return log_probs.numpy()[0, : int(lengths[0])]


def chunks(samples, sizes):
    """Cuts samples into pieces of these sizes; the last size repeats."""
    first, i = 0, 0
    while first < len(samples):
        size = sizes[min(i, len(sizes) - 1)]
        yield samples[first : first + size]
        first, i = first + size, i + 1


def frames_allowed(streaming_model, num_samples):
    """How many output frames depend on nothing after this many samples, by the definition."""
    model = streaming_model.model
    windows = model.feature_config.num_frames(num_samples)
    needed = model.network.lookahead_frames
    stride = model.config.model.time_stride
    return max(0, (windows - 1 - needed) // stride + 1) if windows > needed else 0


CASES = [(model, "running power") for model in MODELS]
CASES += [("gru", features) for features in FEATURES if features != "running power"]


LENGTHS = st.one_of(
    st.sampled_from([0, 1, 79, 80, 159, 160, 161, 239, 240, 241]), st.integers(0, 2 * RATE)
)
SIZES = st.lists(st.one_of(st.integers(1, 400), st.integers(1, 2 * RATE)), min_size=1, max_size=20)


@pytest.mark.parametrize(("model", "features"), CASES)
@settings(max_examples=12, deadline=None)
@given(num_samples=LENGTHS, sizes=SIZES, seed=st.integers(0, 3))
def test_every_chunking_gives_the_frames_of_the_whole(
    streaming_models, model, features, num_samples, sizes, seed
):
    check_chunking(streaming_models(model, features), num_samples, sizes, seed)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "features"), CASES)
@settings(max_examples=300, deadline=None)
@given(num_samples=LENGTHS, sizes=SIZES, seed=st.integers(0, 3))
def test_hundreds_of_chunkings(streaming_models, model, features, num_samples, sizes, seed):
    check_chunking(streaming_models(model, features), num_samples, sizes, seed)


def check_chunking(streaming_model, num_samples, sizes, seed):
    samples = sound(num_samples, seed)
    expected = offline(streaming_model, samples)
    stream = AudioStream(streaming_model)
    heard, frames = 0, []
    for piece in chunks(samples, [max(size, num_samples // 30) for size in sizes]):
        frames.append(stream.accept(piece))
        heard += len(piece)
        count = sum(map(len, frames))
        assert count == frames_allowed(streaming_model, heard)
    frames.append(stream.finish())
    found = np.concatenate(frames)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=1e-4)


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_streams_of_a_batch_start_and_end_when_they_like(streaming_models, data):
    streaming_model = streaming_models("gru", "adapted")
    num_rows = data.draw(st.integers(1, 5), label="rows")
    # One stream after another in each row, of these lengths.
    queues = [
        data.draw(st.lists(st.integers(0, 4000), max_size=3), label=f"streams of row {row}")
        for row in range(num_rows)
    ]
    sounds = [
        [sound(length, 10 * row + i) for i, length in enumerate(queue)]
        for row, queue in enumerate(queues)
    ]
    random = np.random.default_rng(data.draw(st.integers(0, 99), label="seed"))
    state = streaming_model.start(num_rows)
    found = [[[] for _ in queue] for queue in queues]
    place = [(0, 0)] * num_rows  # the stream that a row is in, and how much of it was heard
    while any(place[row][0] < len(queues[row]) for row in range(num_rows)):
        pieces, final, current = [], [], []
        for row, (index, first) in enumerate(place):
            running = index < len(queues[row])
            left = queues[row][index] - first if running else 0
            size = min(left, int(random.choice([0, 1, 100, 700, 3000])))
            ends = running and size == left and bool(random.random() < 0.7)
            pieces.append(sounds[row][index][first : first + size] if running else np.zeros(0))
            final.append(ends)
            current.append(index if running else None)
            place[row] = (index + 1, 0) if ends else (index, first + size)
        longest = max(map(len, pieces))
        padded = np.full((num_rows, longest), np.nan, np.float32)
        for row, piece in enumerate(pieces):
            padded[row, : len(piece)] = piece
        lengths = tf.constant([len(piece) for piece in pieces])
        log_probs, counts, state = streaming_model.step(
            tf.constant(padded), lengths, tf.constant(final), state
        )
        for row, index in enumerate(current):
            if index is not None:
                found[row][index].append(log_probs[row, : int(counts[row])].numpy())
            else:
                assert counts[row] == 0
    for row, streams in enumerate(found):
        for index, frames in enumerate(streams):
            expected = offline(streaming_model, sounds[row][index])
            np.testing.assert_allclose(np.concatenate(frames), expected, atol=1e-4)


def test_a_minute(streaming_models):
    streaming_model = streaming_models("gru", "running power")
    samples = sound(60 * RATE)
    stream = AudioStream(streaming_model)
    frames = [stream.accept(piece) for piece in chunks(samples, [777, 12_345, 1600, 40_000])]
    frames.append(stream.finish())
    np.testing.assert_allclose(np.concatenate(frames), offline(streaming_model, samples), atol=1e-4)


def test_a_stream_that_ended_leaves_no_trace(streaming_models):
    stream = AudioStream(streaming_models("gru", "adapted"))
    samples = sound(5000)
    first = [stream.accept(samples), stream.finish()]
    again = [stream.accept(samples), stream.finish()]
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    stream.accept(sound(3000, 1))
    stream.start()
    np.testing.assert_array_equal(stream.accept(samples), first[0])


def test_the_state_does_not_grow(streaming_models):
    streaming_model = streaming_models("gru", "adapted")
    state = streaming_model.start(1)
    shapes = {name: tensor.shape for name, tensor in state.items()}
    for seed in range(5):
        piece = sound(1000, seed)[np.newaxis]
        *_, state = streaming_model.step(piece, tf.constant([1000]), tf.constant([False]), state)
        assert {name: tensor.shape for name, tensor in state.items()} == shapes


def test_a_bidirectional_model_cannot_follow_a_stream():
    model = make_model({"bidirectional": True, "lookahead": 0}, FEATURES["running power"])
    with pytest.raises(UserError, match=r"bidirectional.*config\.model\.bidirectional=False"):
        StreamingModel(model)


def test_a_model_trained_on_whole_utterances_streams_in_the_causal_form():
    model = make_model({}, {"power_normalization": "utterance"})
    streaming_model = StreamingModel(model)
    assert streaming_model.model.feature_config.power_normalization == "running"
    samples = sound(4000)
    samples[:2000] /= 100
    stream = AudioStream(streaming_model)
    frames = np.concatenate([stream.accept(samples), stream.finish()])
    np.testing.assert_allclose(frames, offline(streaming_model, samples), atol=1e-4)
    whole, _ = model.log_probabilities(samples[np.newaxis], tf.constant([4000]))
    assert np.abs(frames - whole.numpy()[0]).max() > 1e-2


@pytest.mark.slow
def test_an_hour(streaming_models):
    streaming_model = streaming_models("gru", "adapted")
    samples = sound(3600 * RATE)
    stream = AudioStream(streaming_model)
    frames = [stream.accept(piece) for piece in chunks(samples, [1600, 37, 40_000])]
    frames.append(stream.finish())
    found, expected = np.concatenate(frames), offline(streaming_model, samples)
    np.testing.assert_allclose(found, expected, atol=1e-4)
