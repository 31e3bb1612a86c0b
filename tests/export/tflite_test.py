"""Files for LiteRT against TensorFlow. They run in a process without TensorFlow: in the Python that
the environment variable DS2_LITERT_PYTHON names, or in this one's if it has ai-edge-litert.
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import wave
import zipfile

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

from ds2_tf.benchmarks import litert_costs
from ds2_tf.decoding.beam_options import BeamSearchOptions
from ds2_tf.decoding.settings import DecoderSettings
from ds2_tf.errors import UserError
from ds2_tf.streaming import AudioStream, StreamingModel
from export import tflite
from tests.decoding.beams import need_beam_search, write_arpa
from tests.streaming_models import FEATURES, MODELS, RATE, make_model, sound

ROOT = pathlib.Path(__file__).parents[2]
# Shorter than a window, a window and around it, several chunks and around them.
LENGTHS = [0, 1, 159, 160, 161, 1600, 9000]
CASES = {
    "gru": ({}, "running power", 100),
    "rnn, 1D, adapted": (
        {**MODELS["1D"], **MODELS["rnn without batch norm"]},
        "adapted",
        37.5,
    ),
    "lstm, stride 6": (
        {**MODELS["stride 6"], **MODELS["lstm with dense"]},
        "no power normalization",
        20,
    ),
    # Of as many weights as a quantizer finds worth its while.
    "wide": ({"rnn_layers": 1, "rnn_units": 32, "conv_channels": (3, 4)}, "running power", 40),
}
FLOAT16_TOLERANCE = 3e-2


@pytest.fixture(scope="session")
def litert_python():
    python = os.environ.get("DS2_LITERT_PYTHON")
    if not python and importlib.util.find_spec("ai_edge_litert") is None:
        pytest.skip("needs ai-edge-litert: pip install ai-edge-litert, or set DS2_LITERT_PYTHON")
    return python or sys.executable


@pytest.fixture(scope="session")
def frames(litert_python, tmp_path_factory):
    """What a file computes for waveforms, by LiteRT alone."""

    def run(path, waveforms):
        folder = tmp_path_factory.mktemp("frames")
        np.savez(folder / "in.npz", **{str(len(waveform)): waveform for waveform in waveforms})
        script = pathlib.Path(__file__).with_name("litert_frames.py")
        done = subprocess.run(
            [litert_python, script, path, folder / "in.npz", folder / "out.npz"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        with np.load(folder / "out.npz") as found:
            assert not found["tensorflow"]
            return dict(found)

    return run


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    made = {}

    def get(case, quantize="none"):
        if (case, quantize) not in made:
            shape, features, chunk_ms = CASES[case]
            model = make_model(shape, FEATURES[features])
            for layer in model.network.sequence_layers:
                if case == "wide" and hasattr(layer, "recurrent_kernel"):
                    # Trained networks forget; random ones of this width are chaotic.
                    layer.recurrent_kernel.assign(layer.recurrent_kernel * 0.2)
            path = folder / f"{case}_{quantize}.tflite"
            calibration = [sound(8000, seed) for seed in range(3)] if quantize == "int8" else []
            tflite.export(model, path, quantize, chunk_ms, calibration)
            made[case, quantize] = model, path
        return made[case, quantize]

    return get


def parsed(path):
    return schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(path.read_bytes(), 0))


def metadata(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("metadata.json"))


def offline(model, samples):
    log_probs, lengths = model.log_probabilities(samples[np.newaxis], tf.constant([len(samples)]))
    return log_probs.numpy()[0, : int(lengths[0])]


@pytest.mark.parametrize("case", list(CASES)[:3])
def test_every_step_gives_the_frames_of_the_stream_and_the_whole(exported, frames, case):
    model, path = exported(case)
    found = frames(path, [sound(length) for length in LENGTHS])
    stream = AudioStream(StreamingModel(model))
    chunk = metadata(path)["chunk_samples"]
    for length in LENGTHS:
        samples = sound(length)
        num_steps = length // chunk
        expected = [stream.accept(samples[i * chunk : (i + 1) * chunk]) for i in range(num_steps)]
        stream.accept(samples[num_steps * chunk :])
        stream.finish()
        assert [*map(len, expected)] == found[f"{length}_steps"][:-1].tolist()
        whole = offline(model, samples)
        assert whole.shape == found[f"{length}_stream"].shape
        np.testing.assert_allclose(found[f"{length}_stream"], whole, atol=1e-4)
        if length:
            np.testing.assert_allclose(found[f"{length}_whole"], whole, atol=1e-4)
    labels = [int(label) for label in whole.argmax(-1)]
    best = [b for a, b in zip([0, *labels], labels, strict=False) if b and a != b]
    assert str(found["9000_text"]) == " ".join(model.alphabet.decode(best).split())
    assert np.ptp(whole) > 1, "a network that says the same of everything proves nothing"


def write_wav(path, samples, rate=RATE):
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes((samples.clip(-1, 1) * 32767).astype("<i2").tobytes())


def test_the_client_prints_text_while_it_grows(exported, frames, litert_python, tmp_path):
    _, path = exported("gru")
    samples = sound(9000)
    write_wav(tmp_path / "sound.wav", samples)
    write_wav(tmp_path / "fast.wav", samples, 2 * RATE)
    heard = (samples.clip(-1, 1) * 32767).astype("<i2").astype(np.float32) / 32768
    text = str(frames(path, [heard])["9000_text"])

    def run(name):
        return subprocess.run(
            [litert_python, ROOT / "export" / "litert_client.py", path, tmp_path / name],
            capture_output=True,
            text=True,
            check=False,
        )

    *partial, last = run("sound.wav").stdout.splitlines()
    assert last == text
    assert partial
    assert all(text.startswith(line.removeprefix("... ")) for line in partial)
    wrong = run("fast.wav")
    assert wrong.returncode == 1
    assert "fast.wav: must be 8000 Hz, mono, 16 bits;" in wrong.stderr.splitlines()[-1]


def test_the_client_searches_a_beam(exported, frames, litert_python, tmp_path):
    model, path = exported("gru")
    samples = sound(9000)
    write_wav(tmp_path / "sound.wav", samples)
    heard = (samples.clip(-1, 1) * 32767).astype("<i2").astype(np.float32) / 32768
    found = frames(path, [heard])
    word = str(found["9000_text"]).split()[0]
    language_model = write_arpa(tmp_path / "lm.arpa", [word, "the"])
    need_beam_search()
    settings = DecoderSettings("beam", BeamSearchOptions(beam_width=20, word_bonus=5.0))
    settings = settings.with_language_model(language_model)
    settings.save(tmp_path)
    decoder = settings.make(model.alphabet, model.seconds_per_frame)
    stream = decoder.stream()
    stream.step(found["9000_stream"])
    expected = "".join(symbol.text for symbol in stream.finish())
    assert expected != str(found["9000_text"])

    def run(*arguments):
        client = ROOT / "export" / "litert_client.py"
        return subprocess.run(
            [litert_python, client, *arguments, path, tmp_path / "sound.wav"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )

    done = run(f"--settings={tmp_path}")
    if "No module named 'absl'" in done.stderr:
        pytest.skip("the Python of LiteRT lacks absl-py")
    assert done.stdout.splitlines()[-1] == expected, done.stderr
    assert run(f"--lm={language_model}").returncode == 0
    done = run("--lm=/nowhere/lm.binary")
    assert done.returncode == 1
    assert done.stderr == (
        "error: /nowhere/lm.binary: there is no such file; name a language model's file\n"
    )


def test_the_benchmark_measures_a_file(exported, litert_python):
    model, path = exported("gru")
    result = litert_costs.measure(
        path,
        [(sound(9000), "xyz"), (sound(2000), "")],
        model.alphabet,
        RATE,
        python=litert_python,
        threads=1,
    )
    assert result.size_bytes == path.stat().st_size
    assert result.num_sentences == 2
    assert result.words.reference_units == 1
    assert 0 < result.real_time_factor < 10
    assert 2**20 < result.peak_bytes < 2**30
    rows = litert_costs.rows("noise", {"none": result, "int8": result})
    assert [row.case for row in rows[::5]] == ["noise, float32", "noise, int8"]
    assert "float32" in litert_costs.table("noise", {"none": result})
    with pytest.raises(UserError, match="name a Python with ai-edge-litert"):
        litert_costs.measure(path, [], model.alphabet, RATE, python="/bin/false", threads=1)


@pytest.mark.parametrize("quantize", ["float16", "dynamic", "int8"])
def test_lower_precisions_stay_near(exported, frames, quantize):
    model, path = exported("wide", quantize)
    found, exact = frames(path, [sound(9000)]), offline(model, sound(9000))
    for part in ("stream", "whole"):
        differences = np.abs(found[f"9000_{part}"] - exact)
        assert differences.max() > 1e-4
        if quantize == "float16":
            assert differences.max() < FLOAT16_TOLERANCE
        else:
            assert differences.mean() < 0.1 * exact.std()


@pytest.mark.parametrize(
    ("case", "quantize"), [*((case, "none") for case in list(CASES)[:3]), ("wide", "int8")]
)
def test_has_builtin_operations_only(exported, case, quantize):
    codes = parsed(exported(case, quantize)[1]).operatorCodes
    assert not [code.customCode for code in codes if code.customCode]


def test_int8_multiplies_integers_and_shares_the_weights(exported):
    model = parsed(exported("wide", "int8")[1])
    products = {
        getattr(schema.BuiltinOperator, name)
        for name in ("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D", "BATCH_MATMUL")
    }
    weights = {}
    for graph in model.subgraphs:
        for operator in graph.operators:
            if model.operatorCodes[operator.opcodeIndex].builtinCode in products:
                types = {graph.tensors[i].type for i in operator.inputs[:2]}
                assert len(types) == 1
                by_type = weights.setdefault(*types, {})
                buffer = graph.tensors[operator.inputs[1]].buffer
                by_type.setdefault(buffer, set()).add(graph.name)
    # The second convolution, two products of the recurrent layer, row convolution.
    assert len(weights[schema.TensorType.INT8]) == 4
    # The first convolution and the output.
    assert len(weights[schema.TensorType.FLOAT32]) == 2
    for by_type in weights.values():
        assert all(len(graphs) == 3 for graphs in by_type.values()), "weights lie there twice"


def test_metadata_say_what_a_client_must_know(exported):
    model, path = exported("gru")
    found = metadata(path)
    state = found.pop("state")
    assert found == {
        "format_version": 1,
        "quantize": "none",
        "sample_rate_hz": RATE,
        "seconds_per_frame": 0.02,
        "language": "en",
        "labels": ["", *model.alphabet.symbols],
        "signatures": ["stream_step", "stream_finish", "transcribe"],
        "chunk_samples": 800,
        "lookahead_ms": StreamingModel(model).lookahead_ms,
    }
    assert {"name": "state_row_conv_count", "type": "int32", "shape": [1], "start": [0]} in state
    level = next(part for part in state if part["name"] == "state_level_mean")
    assert level["start"] == pytest.approx([0.02])


@pytest.mark.parametrize("chunk_ms", [-10, 2001, 0.01, float("nan")])
def test_bad_chunks_are_named(tmp_path, chunk_ms):
    model = make_model({}, FEATURES["running power"])
    with pytest.raises(UserError, match=rf"chunk_ms must lie.*Received: {chunk_ms:g}$"):
        tflite.export(model, tmp_path / "x.tflite", chunk_ms=chunk_ms)
    assert not list(tmp_path.iterdir())


def test_a_bidirectional_model_has_whole_utterances_alone(tmp_path, frames):
    model = make_model({"bidirectional": True, "lookahead": 0}, FEATURES["no power normalization"])
    path = tmp_path / "x.tflite"
    with pytest.raises(UserError, match=r"bidirectional.*--chunk_ms=0$"):
        tflite.export(model, path)
    tflite.export(model, path, chunk_ms=0)
    assert metadata(path)["signatures"] == ["transcribe"]
    assert "state" not in metadata(path)
    samples = sound(9000)
    whole = frames(path, [samples])["9000_whole"]
    np.testing.assert_allclose(whole, offline(model, samples), atol=1e-4)


def test_int8_needs_calibration(tmp_path):
    model = make_model({}, FEATURES["running power"])
    with pytest.raises(ValueError, match="int8 needs waveforms"):
        tflite.export(model, tmp_path / "x.tflite", "int8")


def test_replaces_a_file_on_demand_only(tmp_path):
    path = tmp_path / "x.tflite"
    tflite.check_output(path)
    path.touch()
    tflite.check_output(path, overwrite=True)
    for output, overwrite in ((path, False), (tmp_path, True)):
        with pytest.raises(UserError, match="exists already"):
            tflite.check_output(output, overwrite)
