"""The signatures for streams, called as a server's clients do: with nothing but the SavedModel."""

import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ds2_tf.acoustic_model import AcousticModel
from ds2_tf.streaming import AudioStream, StreamingModel
from export import signatures
from tests.streaming_models import make_model, sound

RATE = 8000


@pytest.fixture(scope="module")
def model(streaming_workdir):
    return AcousticModel.load(streaming_workdir)


@pytest.fixture(scope="module")
def loaded(streaming_export):
    """Loaded once; the signatures of a model go with it."""
    return tf.saved_model.load(str(streaming_export))


def call(loaded, name, **inputs):
    outputs = loaded.signatures[name](**{key: tf.constant(value) for key, value in inputs.items()})
    return {key: value.numpy() for key, value in outputs.items()}


def start(loaded, num_streams):
    return call(loaded, "stream_start", streams=np.zeros(num_streams, np.int32))


def step(loaded, pieces, final, state):
    """Takes a piece for each row; the padding is what would spoil most."""
    lengths = np.array([len(piece) for piece in pieces], np.int32)
    waveform = np.full((len(pieces), lengths.max()), np.nan, np.float32)
    for row, piece in zip(waveform, pieces, strict=True):
        row[: len(piece)] = piece
    outputs = call(
        loaded, "stream_step", waveform=waveform, waveform_lengths=lengths, final=final, **state
    )
    assert outputs["log_probabilities"].shape[1] == outputs["lengths"].max()
    return outputs, {key: value for key, value in outputs.items() if key.startswith("state_")}


def transcribe(loaded, samples):
    outputs = call(
        loaded,
        "transcribe",
        waveform=samples[np.newaxis],
        waveform_lengths=np.array([len(samples)], np.int32),
    )
    return outputs["log_probabilities"][0, : outputs["lengths"][0]], outputs["text"][0].decode()


def check_streams(loaded, utterances, sizes):
    """Runs utterances as rows of one batch that are cut differently and end at other times."""
    rows = [cut(samples, sizes[row:] + sizes[:row]) for row, samples in enumerate(utterances)]
    state = start(loaded, len(rows))
    frames, texts = [[] for _ in rows], ["" for _ in rows]
    for i in range(max(map(len, rows))):
        pieces = [pieces[i] if i < len(pieces) else np.zeros(0, np.float32) for pieces in rows]
        final = [i == len(pieces) - 1 for pieces in rows]
        outputs, state = step(loaded, pieces, final, state)
        for row, length in enumerate(outputs["lengths"]):
            assert length == 0 or i < len(rows[row])
            frames[row].append(outputs["log_probabilities"][row, :length])
            texts[row] += outputs["text"][row].decode()
    for samples, of_row, text in zip(utterances, frames, texts, strict=True):
        expected, expected_text = transcribe(loaded, samples)
        found = np.concatenate(of_row)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, atol=1e-4)
        assert " ".join(text.split()) == expected_text


def cut(samples, sizes):
    """Cuts samples into pieces of these sizes, and one of what is left, even nothing."""
    return np.split(samples, np.minimum(np.cumsum(sizes), len(samples)))


LENGTHS = st.one_of(
    st.sampled_from([0, 1, 159, 160, 161, 239, 240]), st.integers(0, RATE), st.integers(0, 2 * RATE)
)


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(LENGTHS, min_size=1, max_size=3),
    sizes=st.lists(st.one_of(st.integers(0, 400), st.integers(0, RATE)), min_size=1, max_size=8),
    seed=st.integers(0, 3),
)
def test_rows_in_different_phases_get_what_transcribe_gives(loaded, lengths, sizes, seed):
    utterances = [sound(n, seed + row) for row, n in enumerate(lengths)]
    check_streams(loaded, utterances, sizes)


def test_samples_one_by_one(loaded):
    check_streams(loaded, [sound(170), sound(330)], [1] * 330)


def test_frames_come_when_those_of_the_recognizer_do(loaded, model):
    samples = sound(2 * RATE)
    audio_stream = AudioStream(StreamingModel(model))
    state = start(loaded, 1)
    for first in range(0, len(samples), 700):
        piece = samples[first : first + 700]
        outputs, state = step(loaded, [piece], [False], state)
        expected = audio_stream.accept(piece)
        assert outputs["lengths"][0] == len(expected)
        np.testing.assert_allclose(outputs["log_probabilities"][0], expected, atol=1e-4)
    outputs, _ = step(loaded, [samples[:0]], [True], state)
    np.testing.assert_allclose(outputs["log_probabilities"][0], audio_stream.finish(), atol=1e-4)


def test_a_stream_that_ends_leaves_the_state_of_a_new_one(loaded):
    first = start(loaded, 2)
    _, state = step(loaded, [sound(3000), sound(2000)], [True, False], first)
    for name, tensor in state.items():
        np.testing.assert_array_equal(tensor[0], first[name][0], err_msg=name)
    assert any((state[name][1] != first[name][1]).any() for name in state)


def test_rows_can_move_between_batches(loaded):
    samples = sound(RATE)
    _, together = step(loaded, [sound(900, 1), samples[:5000]], [False, False], start(loaded, 2))
    alone = {name: tensor[1:] for name, tensor in together.items()}
    last, _ = step(loaded, [samples[5000:]], [True], alone)
    expected, _ = transcribe(loaded, samples)
    found = last["log_probabilities"][0]
    np.testing.assert_allclose(found, expected[len(expected) - len(found) :], atol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"final": [False]}, "final must have one entry for each row of waveform"),
        (
            {"state_last_label": [0]},
            "state_last_label must have one entry for each row of waveform",
        ),
        ({"waveform_lengths": [4, 5]}, "waveform_lengths must not exceed the samples of a row"),
        ({"waveform_lengths": [4, -1]}, "waveform_lengths must be >= 0"),
    ],
)
def test_arguments_that_do_not_fit_are_an_error(loaded, change, message):
    inputs = {
        "waveform": np.zeros((2, 4), np.float32),
        "waveform_lengths": [4, 4],
        "final": [False, False],
        **start(loaded, 2),
    }
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        call(loaded, "stream_step", **{**inputs, **change})


def test_description(loaded, streaming_workdir):
    outputs = call(loaded, "describe", request=np.zeros(2, np.int32))
    for row in range(2):
        config = json.loads(outputs["config"][row])
        assert config == json.loads((streaming_workdir / "config.json").read_text("utf-8"))
        alphabet = json.loads(outputs["alphabet"][row])
        assert alphabet == json.loads((streaming_workdir / "alphabet.json").read_text("utf-8"))


def test_state_without_elements_is_no_part_of_the_signatures():
    """A model without convolution or look-ahead keeps nothing of its input."""
    shape = {"conv_channels": (), "conv_kernels": (), "conv_strides": (), "lookahead": 1}
    model = make_model(shape, {"power_normalization": "running"})
    streaming_model = StreamingModel(model)
    state = streaming_model.start(3)
    functions = signatures.functions(model, "{}", "{}")
    names = functions["stream_start"](tf.zeros([3], tf.int32)).keys()
    assert names - {"state_last_label"} == {f"state_{k}" for k, t in state.items() if tf.size(t)}
    assert functions["stream_step"].input_signature[3].keys() == names


def test_bidirectional_models_have_no_stream(tiny_workdir):
    model = AcousticModel.load(tiny_workdir)
    assert not signatures.can_stream(model)
    assert signatures.functions(model, "{}", "{}").keys() == {"transcribe", "describe"}


STRANGER = textwrap.dedent(
    """
    import sys
    for name in ("keras", "ds2_tf", "export", "tools"):
        sys.modules[name] = None
    import numpy as np
    import tensorflow as tf

    folder, scratch = sys.argv[1:]
    samples = np.load(scratch + "/samples.npy")
    model = tf.saved_model.load(folder)
    state = model.signatures["stream_start"](streams=tf.zeros([1], tf.int32))
    frames, text, size = [], b"", 50
    while len(samples):
        piece, samples = samples[np.newaxis, :size], samples[size:]
        outputs = model.signatures["stream_step"](
            waveform=tf.constant(piece),
            waveform_lengths=tf.constant([piece.shape[1]]),
            final=tf.constant([len(samples) == 0]),
            **state,
        )
        state = {name: outputs[name] for name in state}
        frames.append(outputs["log_probabilities"].numpy()[0, : outputs["lengths"].numpy()[0]])
        text += outputs["text"].numpy()[0]
        size = (size * 7 + 13) % 1500 + 1
    np.savez(scratch + "/found.npz", frames=np.concatenate(frames), text=text)
    """
)


def test_strangers_process_streams_with_tensorflow_alone(loaded, model, streaming_export, tmp_path):
    samples = sound(RATE, seed=9)
    np.save(tmp_path / "samples.npy", samples)
    done = subprocess.run(
        [sys.executable, "-c", STRANGER, str(streaming_export), str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "found.npz")
    log_probabilities, _ = model.log_probabilities(samples[np.newaxis], tf.constant([RATE]))
    np.testing.assert_allclose(found["frames"], log_probabilities[0], atol=1e-4)
    assert " ".join(found["text"].item().decode().split()) == transcribe(loaded, samples)[1]
