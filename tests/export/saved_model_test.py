import itertools
import json
import os
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf

from ds2_tf import alphabet, config
from ds2_tf.acoustic_model import AcousticModel
from ds2_tf.errors import UserError
from export import saved_model

# What a stranger's process does: it has TensorFlow, but neither Keras nor this project.
STRANGER = textwrap.dedent(
    """
    import json, sys
    for name in ("keras", "ds2_tf", "export", "tools"):
        sys.modules[name] = None
    import numpy as np
    import tensorflow as tf
    from tensorflow.core.protobuf import saved_model_pb2

    folder, scratch = sys.argv[1:]
    inputs = np.load(scratch + "/inputs.npz")
    model = tf.saved_model.load(folder)
    for name in ("transcribe", "serving_default"):
        outputs = model.signatures[name](**{key: tf.constant(inputs[key]) for key in inputs.files})
        np.savez(f"{scratch}/{name}.npz", **{key: value.numpy() for key, value in outputs.items()})

    saved = saved_model_pb2.SavedModel()
    with open(folder + "/saved_model.pb", "rb") as file:
        saved.ParseFromString(file.read())
    graph = saved.meta_graphs[0].graph_def
    ops = {node.op for node in graph.node}
    ops |= {node.op for function in graph.library.function for node in function.node_def}
    unknown = sorted(op for op in ops if not hasattr(tf.raw_ops, op))
    print(json.dumps({"ops": sorted(ops), "unknown": unknown}))
    """
)


@pytest.fixture(scope="module")
def model(tiny_workdir):
    return AcousticModel.load(tiny_workdir)


@pytest.fixture(scope="module")
def exported(model, tmp_path_factory):
    output = tmp_path_factory.mktemp("exports") / "tiny"
    saved_model.export(model, output)
    return output


@pytest.fixture(scope="module")
def narrow(streaming_workdir, tmp_path_factory):
    """The forward-only model with weights stored in float16, and decoder.json."""
    folder = tmp_path_factory.mktemp("narrow")
    (folder / "decoder.json").write_text('{"beam_width": 3}')
    saved_model.export(
        AcousticModel.load(streaming_workdir),
        folder / "1",
        dtype="float16",
        more_assets=[folder / "decoder.json"],
    )
    return folder / "1"


def test_strangers_process_gets_the_checkpoints_results_from_standard_ops(
    model, exported, tmp_path
):
    lengths = np.array([4000, 0, 2345], np.int32)
    waveform = np.random.default_rng(0).normal(0, 0.1, (3, 4000)).astype(np.float32)
    waveform[1:, 2345:] = np.nan
    np.savez(tmp_path / "inputs.npz", waveform=waveform, waveform_lengths=lengths)
    done = subprocess.run(
        [sys.executable, "-c", STRANGER, str(exported), str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected, expected_lengths = model.log_probabilities(waveform, lengths)
    for name in ("transcribe", "serving_default"):
        with np.load(tmp_path / f"{name}.npz", allow_pickle=True) as outputs:
            assert set(outputs.files) == {"log_probabilities", "lengths", "text"}
            np.testing.assert_allclose(outputs["log_probabilities"], expected, atol=1e-4)
            np.testing.assert_array_equal(outputs["lengths"], expected_lengths)
            assert outputs["text"].shape == (3,)
            assert outputs["text"][1] == b""
            assert outputs["text"][0] not in (b"", outputs["text"][2])
    graph = json.loads(done.stdout)
    assert graph["unknown"] == []
    assert "Conv2D" in graph["ops"]
    assert not [op for op in graph["ops"] if "PyFunc" in op]


def test_assets_are_the_alphabet_and_the_config(model, exported):
    assert sorted(os.listdir(exported / "assets")) == ["alphabet.json", "config.json"]
    assert alphabet.Alphabet.load(exported / "assets" / "alphabet.json") == model.alphabet
    assert config.load(exported / "assets" / "config.json") == model.config


def test_narrow_weights_take_half_and_compute_in_float32(narrow, streaming_workdir):
    """The oracle is the model with weights that NumPy has rounded."""
    model = AcousticModel.load(streaming_workdir)
    sizes = {"wide": 0, "stored": 0}
    for variable in model.network.trainable_variables:
        wide = variable.numpy()
        kept = wide.astype(np.float16) if wide.ndim > 1 else wide
        variable.assign(kept.astype(np.float32))
        sizes["wide"] += wide.nbytes
        sizes["stored"] += kept.nbytes
    assert sizes["stored"] < 0.55 * sizes["wide"]
    reader = tf.train.load_checkpoint(str(narrow / "variables" / "variables"))
    stored = sum(
        np.prod(shape) * reader.get_variable_to_dtype_map()[name].size
        for name, shape in reader.get_variable_to_shape_map().items()
        if name.startswith("weights")
    )
    vectors = sum(v.numpy().nbytes for v in model.network.non_trainable_variables)
    assert sizes["stored"] <= stored <= sizes["stored"] + vectors

    waveform = np.random.default_rng(4).normal(0, 0.1, (2, 5000)).astype(np.float32)
    lengths = tf.constant([5000, 3000])
    expected, _ = model.log_probabilities(waveform, lengths)
    unrounded = AcousticModel.load(streaming_workdir)
    exact, _ = unrounded.log_probabilities(waveform, lengths)
    loaded = tf.saved_model.load(str(narrow))
    found = loaded.signatures["transcribe"](
        waveform=tf.constant(waveform), waveform_lengths=lengths
    )["log_probabilities"]
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert 1e-4 < np.abs(found - exact).max() < 0.2
    streamed = loaded.signatures["stream_step"](
        waveform=tf.constant(waveform),
        waveform_lengths=lengths,
        final=tf.constant([True, True]),
        **loaded.signatures["stream_start"](streams=tf.zeros([2], tf.int32)),
    )["log_probabilities"]
    np.testing.assert_allclose(streamed, expected, atol=1e-4)


def test_more_assets(narrow):
    names = sorted(os.listdir(narrow / "assets"))
    assert names == ["alphabet.json", "config.json", "decoder.json"]
    assert (narrow / "assets" / "decoder.json").read_text() == '{"beam_width": 3}'


def test_text_of_bigrams(model, tmp_path):
    """The tiny network's 29 outputs with another meaning: every text is made of pairs."""
    characters = "abcdef"
    pairs = [a + b for a in characters for b in characters][:21]
    bigrams = alphabet.Alphabet((" ", *pairs, *characters), kind="bigram")
    other = AcousticModel(model.config, bigrams, model.normalization, model.network)
    saved_model.export(other, tmp_path / "bigrams")
    loaded = tf.saved_model.load(str(tmp_path / "bigrams"))
    waveform = np.random.default_rng(3).normal(0, 0.1, (3, 6000)).astype(np.float32)
    outputs = loaded.signatures["transcribe"](
        waveform=tf.constant(waveform), waveform_lengths=tf.constant([6000, 3000, 100])
    )
    assert outputs["text"].numpy()[2] == b""
    for i, text in enumerate(outputs["text"].numpy()):
        best = outputs["log_probabilities"].numpy()[i, : outputs["lengths"][i]].argmax(-1)
        labels = [label for label, _ in itertools.groupby(best.tolist()) if label]
        assert text.decode() == " ".join(bigrams.decode(labels).split())
        assert i == 2 or len(text) > len(labels) > 2


def test_saved_model_cli_lists_the_signatures(streaming_export):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tensorflow.python.tools.saved_model_cli", "show"),
            *("--dir", str(streaming_export), "--all"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    words = " ".join(done.stdout.split())
    shown = {part.partition("'")[0]: part for part in words.split("signature_def['")}
    transcribe = (
        "inputs['waveform'] tensor_info: dtype: DT_FLOAT shape: (-1, -1) ",
        "inputs['waveform_lengths'] tensor_info: dtype: DT_INT32 shape: (-1) ",
        "outputs['log_probabilities'] tensor_info: dtype: DT_FLOAT shape: (-1, -1, 29) ",
        "outputs['lengths'] tensor_info: dtype: DT_INT32 shape: (-1) ",
        "outputs['text'] tensor_info: dtype: DT_STRING shape: (-1) ",
    )
    tensors = {
        "transcribe": transcribe,
        "serving_default": transcribe,
        "stream_start": (
            "inputs['streams'] tensor_info: dtype: DT_INT32 shape: (-1) ",
            "outputs['state_samples_frames'] tensor_info: dtype: DT_FLOAT shape: (-1, 159) ",
        ),
        "stream_step": (
            *transcribe,
            "inputs['final'] tensor_info: dtype: DT_BOOL shape: (-1) ",
            "inputs['state_samples_frames'] tensor_info: dtype: DT_FLOAT shape: (-1, 159) ",
            "outputs['state_samples_frames'] tensor_info: dtype: DT_FLOAT shape: (-1, 159) ",
            "inputs['state_last_label'] tensor_info: dtype: DT_INT32 shape: (-1) ",
        ),
        "describe": (
            "inputs['request'] tensor_info: dtype: DT_INT32 shape: (-1) ",
            "outputs['config'] tensor_info: dtype: DT_STRING shape: (-1) ",
            "outputs['alphabet'] tensor_info: dtype: DT_STRING shape: (-1) ",
        ),
    }
    for name, infos in tensors.items():
        for info in infos:
            assert info in shown[name], name


def test_nothing_but_the_export_is_left_beside_it(exported):
    assert os.listdir(exported.parent) == ["tiny"]
    assert saved_model.size_bytes(exported) == sum(
        os.path.getsize(os.path.join(folder, name))
        for folder, _, names in os.walk(exported)
        for name in names
    )


def test_existing_output_is_kept(model, exported):
    before = (exported / "saved_model.pb").stat().st_mtime_ns
    with pytest.raises(UserError) as error:
        saved_model.export(model, exported)
    assert str(error.value) == (
        f"{exported}: exists already; choose another --output, or replace it with --overwrite"
    )
    assert (exported / "saved_model.pb").stat().st_mtime_ns == before


@pytest.fixture
def fake_save(monkeypatch):
    """Replaces the slow writing; what it writes shows that the folder was replaced."""

    def save(module, folder, signatures):
        pathlib.Path(folder).mkdir()
        pathlib.Path(folder, "saved_model.pb").write_text("new")

    monkeypatch.setattr(tf.saved_model, "save", save)


@pytest.mark.usefixtures("fake_save")
def test_overwrite_replaces_a_saved_model(model, tmp_path):
    output = tmp_path / "model"
    (output / "variables").mkdir(parents=True)
    (output / "saved_model.pb").write_text("old")
    saved_model.export(model, output, overwrite=True)
    assert sorted(os.listdir(output)) == ["assets.extra", "saved_model.pb"]
    assert (output / "saved_model.pb").read_text() == "new"
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize("kind", ["folder", "file", "broken link"])
def test_overwrite_never_replaces_anything_else(model, tmp_path, kind):
    output = tmp_path / "thesis"
    if kind == "folder":
        output.mkdir()
        (output / "chapter_1.tex").write_text("")
    elif kind == "file":
        output.write_text("")
    else:
        output.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError) as error:
        saved_model.export(model, output, overwrite=True)
    assert str(error.value) == (
        f"{output}: is not a SavedModel and is not overwritten; choose another --output"
    )
    assert os.listdir(tmp_path) == ["thesis"]


@pytest.mark.usefixtures("fake_save")
def test_failed_replacement_puts_the_old_model_back(model, tmp_path, monkeypatch):
    output = tmp_path / "model"
    output.mkdir()
    (output / "saved_model.pb").write_text("old")
    rename = pathlib.Path.rename

    def fail_for_the_new(self, target):
        if self.name == "model" and self.parent != tmp_path:
            raise OSError("no")
        return rename(self, target)

    monkeypatch.setattr(pathlib.Path, "rename", fail_for_the_new)
    with pytest.raises(OSError, match="no"):
        saved_model.export(model, output, overwrite=True)
    assert (output / "saved_model.pb").read_text() == "old"
    assert os.listdir(tmp_path) == ["model"]


def test_full_disk_is_told_and_leaves_nothing(model, tmp_path, monkeypatch):
    def save(module, folder, signatures):
        pathlib.Path(folder).mkdir()
        pathlib.Path(folder, "half").write_text("")
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device\nmore")

    monkeypatch.setattr(tf.saved_model, "save", save)
    with pytest.raises(UserError) as error:
        saved_model.export(model, tmp_path / "model")
    assert str(error.value) == (
        f"{tmp_path / 'model'}: cannot be written (No space left on device); make room there"
    )
    assert os.listdir(tmp_path) == []


def test_unwritable_folder(model, tmp_path):
    (tmp_path / "file").write_text("")
    output = tmp_path / "file" / "model"
    with pytest.raises(UserError) as error:
        saved_model.export(model, output)
    assert str(error.value) == (
        f"{output}: cannot be written (File exists); choose a folder you may write to"
    )
