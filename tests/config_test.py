import dataclasses
import json
import re

import pytest
from ml_collections import ConfigDict

from ds2_tf import config
from ds2_tf.augment import AugmentConfig
from ds2_tf.errors import UserError
from ds2_tf.features import FeatureConfig
from ds2_tf.model import ModelConfig
from ds2_tf.optimizer import OptimizerConfig
from ds2_tf.schedule import ScheduleConfig

SETTINGS = {
    "alphabet": {"symbols": " äbc", "case": "keep", "language": "de"},
    "features": {"sample_rate_hz": 8000, "window_ms": 25, "log_floor": 1e-3},
    "model": {
        "conv_channels": (4, 8),
        "conv_kernels": ((5, 7), (3, 5)),
        "conv_strides": [[2, 2], [1, 2]],
        "bidirectional": False,
        "lookahead": 10,
    },
    "data": {"train": "a.jsonl, b.jsonl", "allow": ("clipped",), "max_bad_share": 0},
    "augment": {"speed": (0.9, 1.1), "snr_db": (5, 30)},
    "optimizer": {"name": "adam"},
    "schedule": {"learning_rate": 1, "warmup_steps": 10},
    "training": {"seed": 3, "deterministic": False},
}


def resolve(settings):
    return config.resolve(ConfigDict(settings))


def changed(section, **values):
    return SETTINGS | {section: SETTINGS.get(section, {}) | values}


def error_of(settings):
    with pytest.raises(UserError) as error:
        resolve(settings)
    return str(error.value)


def test_settings_arrive_and_the_rest_takes_its_default():
    run = resolve(SETTINGS)
    assert run.alphabet == config.AlphabetConfig(" äbc", "keep", "de")
    assert run.features == FeatureConfig(8000, window_ms=25.0, log_floor=1e-3)
    assert run.model == ModelConfig(
        conv_channels=(4, 8),
        conv_kernels=((5, 7), (3, 5)),
        conv_strides=((2, 2), (1, 2)),
        bidirectional=False,
        lookahead=10,
    )
    assert run.data == config.DataConfig("a.jsonl, b.jsonl", "", ("clipped",), 0.0)
    assert run.augment == AugmentConfig(speed=(0.9, 1.1), snr_db=(5.0, 30.0))
    assert run.optimizer == OptimizerConfig("adam")
    assert run.schedule == ScheduleConfig(1.0, warmup_steps=10)
    assert run.training == config.TrainingConfig(seed=3, deterministic=False)


def test_an_empty_config_is_all_defaults():
    run = resolve({})
    for field in dataclasses.fields(config.RunConfig):
        assert getattr(run, field.name) == field.type()


def test_whole_numbers_become_floats_where_these_are_wanted():
    run = resolve(SETTINGS)
    numbers = [run.schedule.learning_rate, run.data.max_bad_share, *run.augment.snr_db]
    assert [type(number) for number in numbers] == [float] * 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"modle": {}}, "config: unknown key 'modle'; did you mean 'model'?"),
        (
            {"model": {"rnn_unit": 64}},
            "config.model: unknown key 'rnn_unit'; did you mean 'rnn_units'?",
        ),
        (
            {"schedule": {"learning_rat": 1e-3}},
            "config.schedule: unknown key 'learning_rat'; did you mean 'learning_rate'?",
        ),
        (
            {"optimizer": {"zzz": 1}},
            "config.optimizer: unknown key 'zzz'; known: clip_norm, momentum, name, weight_decay",
        ),
        ({"model": 3}, "config.model: must be a section of keys. Received: 3"),
        ({"model": None}, "config.model: must be a section of keys. Received: None"),
    ],
)
def test_a_misspelt_key_names_the_near_one(settings, message):
    assert error_of(settings) == message


@pytest.mark.parametrize(
    ("section", "key", "value", "kind"),
    [
        ("model", "rnn_units", "64", "int"),
        ("model", "rnn_units", 64.0, "int"),
        ("model", "rnn_units", True, "int"),
        ("model", "rnn_units", None, "int"),
        ("model", "dropout", "a lot", "float"),
        ("model", "dropout", False, "float"),
        ("model", "bidirectional", 1, "bool"),
        ("model", "bidirectional", "no", "bool"),
        ("model", "cell", 5, "str"),
        ("model", "conv_channels", 32, "tuple[int, ...]"),
        ("augment", "speed", (0.9,), "tuple[float, float]"),
        ("augment", "speed", (0.9, 1.0, 1.1), "tuple[float, float]"),
        ("data", "allow", "clipped", "tuple[str, ...]"),
        ("training", "num_epochs", "5", "int"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(section, key, value, kind):
    assert error_of({section: {key: value}}) == (
        f"config.{section}.{key}: must be of type {kind}. Received: {value!r}"
    )


def test_a_wrong_type_inside_a_list_is_named():
    message = error_of({"model": {"conv_kernels": ((5, 7), (3, "x"))}})
    assert re.fullmatch(
        r"config.model.conv_kernels: must be of type int. Received: .*3, 'x'.*", message
    )


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        (
            "alphabet",
            {"kind": "bigrams"},
            "kind must be one of character, bigram. Received: 'bigrams'",
        ),
        (
            "alphabet",
            {"symbols": "", "coverage": 0},
            "coverage must lie in (0, 1]. Received: 0.0",
        ),
        (
            "alphabet",
            {"symbols": "", "coverage": 99.5},
            "coverage must lie in (0, 1]. Received: 99.5",
        ),
        (
            "alphabet",
            {"symbols": "ab", "file": "zh.txt"},
            "symbols and file exclude each other; set one of them to ''. "
            "Received: 'ab' and 'zh.txt'",
        ),
        (
            "alphabet",
            {"symbols": "ab", "coverage": 0.99},
            "coverage below 1 chooses among the transcripts' characters; set symbols to ''. "
            "Received: 0.99 and 'ab'",
        ),
        (
            "alphabet",
            {"symbols": "", "file": "zh.txt", "coverage": 0.99},
            "coverage below 1 chooses among the transcripts' characters; set file to ''. "
            "Received: 0.99 and 'zh.txt'",
        ),
        ("model", {"rnn_layers": 0}, "rnn_layers must be >= 1. Received: 0"),
        ("model", {"conv_channels": (4,)}, "conv_channels, conv_kernels and conv_strides must"),
        ("features", {"sample_rate_hz": 0}, "sample_rate_hz must be > 0. Received: 0"),
        ("data", {"max_bad_share": 1.5}, "max_bad_share must lie in [0, 1]. Received: 1.5"),
        (
            "data",
            {"normalization_utterances": 0},
            "normalization_utterances must be >= 1. Received: 0",
        ),
        ("batches", {"batch_size": 0}, "batch_size must be >= 1. Received: 0"),
        ("augment", {"noise_share": 2.0}, "noise_share must lie in [0, 1]. Received: 2.0"),
        (
            "optimizer",
            {"name": "rmsprop"},
            "optimizer name must be one of ('sgd', 'adam', 'adamw'). Received: 'rm",
        ),
        ("schedule", {"anneal": 0.5}, "learning_rate must be > 0, anneal >= 1 and warmup_steps"),
        ("training", {"num_epochs": 0}, "num_epochs must be >= 1. Received: 0"),
        ("training", {"checkpoint_steps": 0}, "checkpoint_steps must be >= 1. Received: 0"),
        ("training", {"keep_checkpoints": 0}, "keep_checkpoints must be >= 1. Received: 0"),
        ("training", {"log_steps": -5}, "log_steps must be >= 1. Received: -5"),
        ("training", {"seed": -1}, "seed must be >= 0. Received: -1"),
    ],
)
def test_a_value_that_cannot_be_is_a_user_error(section, values, message):
    assert error_of({section: values}).startswith(f"config.{section}: {message}")


def test_a_saved_config_comes_back_equal(tmp_path):
    path = tmp_path / "config.json"
    for settings in (SETTINGS, {}):
        run = resolve(settings)
        config.save(run, path)
        loaded = config.load(path)
        assert loaded == run
        assert config.differences(loaded, run) == []
        assert hash(loaded) == hash(run)


def test_a_config_from_before_there_were_bigrams_loads(tmp_path):
    path = tmp_path / "config.json"
    config.save(resolve(SETTINGS), path)
    values = json.loads(path.read_text(encoding="utf-8"))
    for key in ("kind", "file", "coverage"):
        del values["alphabet"][key]
    path.write_text(json.dumps(values), encoding="utf-8")
    assert config.load(path) == resolve(SETTINGS)


def test_the_file_names_every_setting(tmp_path):
    path = tmp_path / "config.json"
    config.save(resolve({"alphabet": {"symbols": " ä"}}), path)
    text = path.read_text(encoding="utf-8")
    assert '"symbols": " ä"' in text
    values = json.loads(text)
    for section in dataclasses.fields(config.RunConfig):
        assert list(values[section.name]) == [f.name for f in dataclasses.fields(section.type)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "not found; --workdir must name the folder that `ds2 train` filled"),
        ("{", r"cannot be read \(Expecting .*\); restore it from a copy"),
        ("[1, 2]", "must be a JSON object of sections"),
        (b"\xff\xfe", r"cannot be read \('utf-8' codec .*\); restore it from a copy"),
        ('{"modle": {}}', "config: unknown key 'modle'; did you mean 'model'\\?"),
        ('{"model": {"rnn_units": "9"}}', "config.model.rnn_units: must be of type int. Rec.*'9'"),
    ],
)
def test_a_wrong_file_is_named(tmp_path, content, message):
    path = tmp_path / "config.json"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=f"^{re.escape(str(path))}: {message}$"):
        config.load(path)


def test_differences_name_each_setting_with_both_values():
    other = changed("model", rnn_layers=5) | changed("training", seed=4)
    other["model"] = SETTINGS["model"] | {"rnn_layers": 5}
    other["augment"] = {"speed": (0.8, 1.1), "snr_db": (5, 30)}
    assert config.differences(resolve(SETTINGS), resolve(other)) == [
        "model.rnn_layers: 3, 5",
        "augment.speed: (0.9, 1.1), (0.8, 1.1)",
        "training.seed: 3, 4",
    ]


def test_an_alphabet_of_named_symbols():
    alphabet = config.make_alphabet(config.AlphabetConfig(" AB", "upper", "xx"), ["zzz"])
    assert (alphabet.symbols, alphabet.case, alphabet.language) == ((" ", "A", "B"), "upper", "xx")


def test_an_alphabet_of_the_transcripts():
    alphabet = config.make_alphabet(config.AlphabetConfig("", "lower", "de"), ["Zu", "äh Zu"])
    assert (alphabet.symbols, alphabet.language) == ((" ", "h", "u", "z", "ä"), "de")


def test_pairs_of_named_symbols_come_from_the_transcripts():
    settings = config.AlphabetConfig(" ab", kind="bigram")
    assert config.make_alphabet(settings, ["aab", "b ba"]).symbols == (" ", "a", "b", "aa", "ba")
    assert config.make_alphabet(settings, []).kind == "bigram"


def test_an_alphabet_of_the_transcripts_with_pairs_and_coverage():
    settings = config.AlphabetConfig("", language="zh", kind="bigram", coverage=0.8)
    alphabet = config.make_alphabet(settings, ["好好好的", "好 的的", "龘"])
    assert alphabet.symbols == (" ", "好", "的", "\ufffd", "好好", "好的", "的的")
    assert alphabet.language == "zh"


def test_an_alphabet_of_a_file(tmp_path):
    path = tmp_path / "zh.txt"
    path.write_text("好\r\n的\r\n", encoding="utf-8")
    settings = config.AlphabetConfig("", "keep", "zh", file=str(path))
    assert config.make_alphabet(settings, ["zzz"]).symbols == ("好", "的")
    pairs = config.make_alphabet(dataclasses.replace(settings, kind="bigram"), ["好好的", "龘的"])
    assert pairs.symbols == ("好", "的", "好好")
    assert (pairs.case, pairs.language) == ("keep", "zh")

    pairs.save(tmp_path / "alphabet.json")
    settings = config.AlphabetConfig("", "keep", "zh", file=str(tmp_path / "alphabet.json"))
    taken = config.make_alphabet(dataclasses.replace(settings, kind="bigram"), ["的的"])
    assert taken == pairs
    with pytest.raises(UserError) as error:
        config.make_alphabet(settings, [])
    assert str(error.value) == (
        f"config.alphabet: {tmp_path}/alphabet.json is of kind 'bigram'; set kind to 'bigram'. "
        "Received: 'character'"
    )
    path.write_text("好\n好\n", encoding="utf-8")
    with pytest.raises(UserError, match=rf"^{path}:2: '好' stands on line 1 already; remove one"):
        config.make_alphabet(config.AlphabetConfig("", file=str(path)), [])


@pytest.mark.parametrize("symbols", [" ab", ""])
def test_a_wrong_alphabet_is_a_user_error(symbols):
    settings = config.AlphabetConfig(symbols, case="title")
    with pytest.raises(UserError, match=r"^config.alphabet: case must be one of .*: 'title'$"):
        config.make_alphabet(settings, ["a b"])


def test_symbols_that_repeat_are_a_user_error():
    with pytest.raises(UserError, match=r"^config.alphabet: symbols must differ. Repeated: 'a'$"):
        config.make_alphabet(config.AlphabetConfig("aba"), [])
