import dataclasses
import shutil
import types

import keras
import ml_collections
import numpy as np
import pytest

from ds2_tf import alphabet, checkpoint, config, normalization, transfer
from ds2_tf.errors import UserError
from ds2_tf.features import FeatureConfig
from ds2_tf.model import DeepSpeech2, ModelConfig

MODEL = ModelConfig(
    conv_channels=(2,),
    conv_kernels=((3, 3),),
    conv_strides=((2, 2),),
    rnn_layers=2,
    rnn_units=3,
    dropout=0.5,
)
FEATURES = FeatureConfig(sample_rate_hz=8000, window_ms=4, step_ms=2)
ABC = alphabet.Alphabet(tuple(" abc"))
STATISTICS = normalization.Normalization(
    np.arange(FEATURES.num_bins, dtype=np.float32), np.full(FEATURES.num_bins, 2, np.float32)
)
OUTPUT = ["output/kernel", "output/bias"]
RECURRENT_1 = [
    f"recurrent_1/{name}"
    for name in (
        "kernel",
        "recurrent_kernel",
        "bn/gamma",
        "bn/beta",
        "bn/moving_mean",
        "bn/moving_variance",
    )
]


def make(symbols=ABC, seed=1, **settings):
    """Returns a network whose every variable is random."""
    keras.utils.set_random_seed(seed)
    settings = dataclasses.replace(MODEL, **settings)
    network = DeepSpeech2(settings, FEATURES.num_bins, len(symbols.symbols) + 1)
    generator = np.random.default_rng(seed)
    for variable in network.weights:
        variable.assign(generator.uniform(0.1, 1.0, variable.shape))
    return network


def values(network):
    return {name: v.numpy() for name, v in checkpoint.model_arrays(network).items()}


@pytest.fixture(scope="module")
def untrained():
    """A network for calls that fail and leave it as it is."""
    return make()


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("transfer")
    run = config.resolve(ml_collections.ConfigDict())
    config.save(dataclasses.replace(run, model=MODEL, features=FEATURES), folder / "config.json")
    ABC.save(folder / "alphabet.json")
    STATISTICS.save(folder / "normalization.npz")
    checkpoint.save(folder / "best/weights.npz", checkpoint.model_arrays(make(seed=2)), {"step": 9})
    return folder


@pytest.fixture
def source(finished_run, tmp_path):
    """A finished run's folder, of which files may be damaged."""
    return shutil.copytree(finished_run, tmp_path / "source")


def saved(source):
    with np.load(source / "best/weights.npz") as arrays:
        return {name: arrays[name] for name in arrays.files if name != "metadata.json"}


def assert_loaded(network, fresh, source, left):
    """All but the tensors `left` and the random state have the source's values."""
    theirs = saved(source)
    for name, value in values(network).items():
        expected = fresh if name in left or "seed" in name else theirs
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
        if "seed" in name and name in theirs:
            assert not np.array_equal(value, theirs[name])


@pytest.mark.parametrize(
    ("symbols", "left"),
    [
        (ABC, []),
        (alphabet.Alphabet(tuple(" abc"), case="keep", language="de"), []),
        (alphabet.Alphabet(tuple(" acb")), OUTPUT),  # another order, the same shape
        (alphabet.Alphabet(tuple(" abcdé")), OUTPUT),
        (types.SimpleNamespace(symbols=tuple(" abc"), kind="bigram"), OUTPUT),
    ],
)
def test_the_output_layer_alone_depends_on_the_alphabet(source, symbols, left):
    network = make(symbols)
    fresh = values(network)
    report = transfer.initialize(network, symbols, source)
    weights = [name for name in fresh if "seed" not in name]
    assert len(fresh) - len(weights) == 2  # one a dropout layer
    assert report.left == dict.fromkeys(left, "its labels mean other symbols there")
    assert list(report.loaded) == [name for name in weights if name not in left]
    assert report.unused == ()
    assert_loaded(network, fresh, source, left)


def test_a_model_that_took_everything_hears_what_the_source_hears(source):
    network, original = make(dropout=0.0), make(seed=2)
    report = transfer.initialize(network, ABC, source)
    batch = {
        "features": np.random.default_rng(0).normal(size=(2, 9, 17)).astype(np.float32),
        "feature_lengths": np.array([9, 6], np.int32),
    }
    np.testing.assert_array_equal(network(batch)["logits"], original(batch)["logits"])
    assert report.unused == ()  # the source's random state is not missed


@pytest.mark.parametrize(
    ("settings", "left", "unused"),
    [
        (
            {"rnn_layers": 3},
            {
                name.replace("recurrent_1", "recurrent_2"): f"shape {shape} here, nothing there"
                for name, shape in zip(
                    RECURRENT_1, [(3, 9), (2, 3, 9), (9,), (9,), (9,), (9,)], strict=True
                )
            },
            [],
        ),
        ({"rnn_layers": 1}, {}, RECURRENT_1),
        (
            {"bidirectional": False},
            {
                f"recurrent_{i}/recurrent_kernel": "shape (1, 3, 9) here, (2, 3, 9) there"
                for i in range(2)
            },
            [],
        ),
    ],
)
def test_what_does_not_fit_stays_and_is_told(source, settings, left, unused):
    network = make(**settings)
    fresh = values(network)
    report = transfer.initialize(network, ABC, source)
    assert report.left == left
    assert list(report.unused) == unused
    assert_loaded(network, fresh, source, left)


def test_the_report_is_readable(source):
    symbols = alphabet.Alphabet(tuple(" abcd"))
    network = make(symbols, rnn_layers=1, bidirectional=False)
    names = [name for name in values(network) if "seed" not in name]
    assert names[6] == "recurrent_0/recurrent_kernel"
    assert transfer.initialize(network, symbols, source).lines() == [
        f"{source}/best/weights.npz: loaded 10 of 13 tensors",
        f"loaded: {', '.join(names[:6] + names[7:11])}",
        "left as made: recurrent_0/recurrent_kernel: shape (1, 3, 9) here, (2, 3, 9) there",
        "left as made: output/kernel: its labels mean other symbols there",
        "left as made: output/bias: its labels mean other symbols there",
        f"not in this model: {', '.join(RECURRENT_1)}",
    ]


def test_statistics_are_reused_where_the_features_are_the_same(source):
    statistics, line = transfer.reusable_normalization(FEATURES, source)
    np.testing.assert_array_equal(statistics.mean, STATISTICS.mean)
    np.testing.assert_array_equal(statistics.standard_deviation, STATISTICS.standard_deviation)
    assert line == f"feature statistics: {source}/normalization.npz"


def test_statistics_of_other_features_are_not_reused(source):
    other = dataclasses.replace(FEATURES, sample_rate_hz=16000, window_ms=2, log_floor=1e-3)
    assert other.num_bins == FEATURES.num_bins
    assert transfer.reusable_normalization(other, source) == (
        None,
        "feature statistics: measured anew, the features differ: sample_rate_hz 16000 here, 8000 "
        "there; window_ms 2 here, 4.0 there; log_floor 0.001 here, 0.0001 there",
    )


def fails(network, source, symbols=ABC):
    """Returns the message; nothing may have been loaded."""
    before = values(network)
    with pytest.raises(UserError) as error:
        transfer.initialize(network, symbols, source)
    for name, value in values(network).items():
        np.testing.assert_array_equal(value, before[name])
    return str(error.value)


def test_nothing_in_common_is_an_error(source):
    symbols = alphabet.Alphabet(tuple(" abcd"))
    network = make(symbols, conv_channels=(3,), rnn_units=4)
    kernel = next(iter(values(network)))
    assert fails(network, source, symbols) == (
        f"{source}/best/weights.npz: no tensor fits the new model ({kernel}: shape (3, 3, 1, 3) "
        f"here, (3, 3, 1, 2) there); set config.model as in {source}/config.json"
    )


@pytest.mark.parametrize(
    "names", [["best/weights.npz"], ["alphabet.json"], ["config.json", "normalization.npz"]]
)
def test_missing_files_are_named(untrained, source, names):
    for name in names:
        (source / name).unlink()
    message = (
        f"{source}: lacks {', '.join(names)}; name the folder of a trained model to start from"
    )
    assert fails(untrained, source) == message
    with pytest.raises(UserError) as error:
        transfer.reusable_normalization(FEATURES, source)
    assert str(error.value) == message


def test_a_missing_folder_is_named(untrained, tmp_path):
    assert fails(untrained, tmp_path / "gone") == (
        f"{tmp_path}/gone: lacks config.json, alphabet.json, normalization.npz, best/weights.npz; "
        "name the folder of a trained model to start from"
    )


def damage(path):
    path.write_bytes(b"\n" * (path.stat().st_size // 2))
    return path


def test_damaged_weights_and_alphabets_are_named(untrained, source):
    path = damage(source / "best/weights.npz")
    assert fails(untrained, source) == (
        f"{path}: is damaged or no checkpoint; put back a copy, or go on from an older one without "
        "it"
    )
    path = damage(source / "alphabet.json")
    message = fails(untrained, source)
    assert message.startswith(f"{path}: is not JSON (Expecting value: ")
    assert "\n" not in message


def test_damaged_statistics_and_configs_are_named(source):
    for name, reason in [
        ("normalization.npz", "not the statistics that training writes ("),
        ("config.json", "cannot be read (Expecting value: "),
    ]:
        path = damage(source / name)
        with pytest.raises(UserError) as error:
            transfer.reusable_normalization(FEATURES, source)
        assert str(error.value).startswith(f"{path}: {reason}")
        assert "\n" not in str(error.value)
