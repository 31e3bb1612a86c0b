import itertools

import numpy as np
import pytest
import tensorflow as tf

from ds2_tf.acoustic_model import AcousticModel
from export import signatures

WINDOW = 160  # 20 ms at the tiny model's 8 kHz
SAMPLES = [5000, 0, 3200, WINDOW - 1, WINDOW, 4999, 1]


@pytest.fixture(scope="module")
def model(tiny_workdir):
    return AcousticModel.load(tiny_workdir)


@pytest.fixture(scope="module")
def transcribe(model):
    return signatures.transcribe(model)


@pytest.fixture(scope="module")
def utterances():
    generator = np.random.default_rng(7)
    return [generator.normal(0, 0.1, n).astype(np.float32) for n in SAMPLES]


def padded(utterances, num_samples, padding):
    batch = np.full((len(utterances), num_samples), padding, np.float32)
    for row, utterance in zip(batch, utterances, strict=True):
        row[: len(utterance)] = utterance
    return batch


def call(transcribe, waveform, lengths):
    outputs = transcribe(tf.constant(waveform), tf.constant(lengths, tf.int32))
    return {name: value.numpy() for name, value in outputs.items()}


def collapsed(log_probabilities, alphabet):
    """Greedy decoding in plain Python."""
    labels = [label for label, _ in itertools.groupby(log_probabilities.argmax(-1)) if label]
    return " ".join(alphabet.decode(labels).split())


@pytest.mark.parametrize("padding", [0.0, np.nan, 0.9])
def test_each_row_has_the_result_it_has_alone(transcribe, utterances, padding):
    batch = call(transcribe, padded(utterances, 5300, padding), SAMPLES)
    texts = set()
    for i, utterance in enumerate(utterances):
        alone = call(transcribe, utterance[np.newaxis], [len(utterance)])
        n = alone["lengths"][0]
        assert batch["lengths"][i] == n
        np.testing.assert_allclose(
            batch["log_probabilities"][i, :n], alone["log_probabilities"][0, :n], atol=1e-4
        )
        np.testing.assert_array_equal(batch["log_probabilities"][i, n:], 0.0)
        assert batch["text"][i] == alone["text"][0]
        texts.add(batch["text"][i])
    assert len(texts) > 3, "random weights that write the same text everywhere prove nothing"


def test_padding_with_the_first_sample_changes_nothing(transcribe, utterances):
    """TensorFlow Serving pads the requests that it joins with their first element."""
    rows = utterances[2:3] + utterances[5:6]
    lengths = [len(row) for row in rows]
    batch = padded(rows, max(lengths), 0.0)
    expected = call(transcribe, batch, lengths)
    batch[0, lengths[0] :] = batch[0, 0]
    for name, value in call(transcribe, batch, lengths).items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


def test_equals_the_model_and_decodes_its_best_labels(transcribe, model, utterances):
    batch = padded(utterances, 5000, 0.0)
    log_probabilities, lengths = model.log_probabilities(batch, tf.constant(SAMPLES, tf.int32))
    outputs = call(transcribe, batch, SAMPLES)
    np.testing.assert_allclose(outputs["log_probabilities"], log_probabilities, atol=1e-4)
    np.testing.assert_array_equal(outputs["lengths"], lengths)
    assert [text.decode() for text in outputs["text"]] == [
        collapsed(row[:n], model.alphabet)
        for row, n in zip(log_probabilities.numpy(), lengths.numpy(), strict=True)
    ]


@pytest.mark.parametrize("num_samples", [0, 1, WINDOW - 1])
def test_shorter_than_a_window_has_no_frames(transcribe, num_samples):
    outputs = call(transcribe, np.full((2, num_samples), 0.1, np.float32), [num_samples, 0])
    assert outputs["log_probabilities"].shape == (2, 0, 29)
    np.testing.assert_array_equal(outputs["lengths"], [0, 0])
    np.testing.assert_array_equal(outputs["text"], [b"", b""])


@pytest.mark.parametrize("num_samples", [0, 4000])
def test_no_rows(transcribe, num_samples):
    outputs = call(transcribe, np.zeros((0, num_samples), np.float32), [])
    frames = call(transcribe, np.zeros((1, num_samples), np.float32), [num_samples])["lengths"][0]
    assert outputs["log_probabilities"].shape == (0, frames, 29)
    assert outputs["lengths"].shape == outputs["text"].shape == (0,)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([4001, 4000], "waveform_lengths must not exceed the samples of a row of waveform"),
        ([4000, -1], "waveform_lengths must be >= 0"),
        ([4000], "waveform_lengths must have one entry for each row of waveform"),
        ([4000, 4000, 4000], "waveform_lengths must have one entry for each row of waveform"),
    ],
)
def test_lengths_that_do_not_fit_are_an_error(transcribe, lengths, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        call(transcribe, np.zeros((2, 4000), np.float32), lengths)
