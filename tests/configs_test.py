import ast
import math
import pathlib
import runpy
import types

import pytest
from ml_collections import ConfigDict

from ds2_tf import alphabet, config
from ds2_tf.errors import UserError
from ds2_tf.model import DeepSpeech2

FOLDER = pathlib.Path(__file__).parents[1] / "configs"
FILES = sorted(FOLDER.glob("*.py"))
DEPTHS = ["5-1", "5-3", "7-5", "9-7"]
ROWS = {
    "table1": [depth + suffix for depth in DEPTHS for suffix in ("", "-bn")],
    "table2": ["9-7", "9-7-bn", "9-7-unsorted", "9-7-bn-unsorted"],
    "table3": [f"{depth}-{cell}" for depth in DEPTHS for cell in ("rnn", "gru")],
    "table4": ["1x1d", "2x1d", "3x1d", "1x2d", "2x2d", "3x2d"],
    "table5": [
        f"{stride}-{symbols}" for symbols in ("unigrams", "bigrams") for stride in (2, 3, 4)
    ],
}
MODELS = ["table10", "ds2_english_100m", "ds2_mandarin", "ds2_mandarin_deployed"]
PAPER = [(stem, row) for stem, rows in ROWS.items() for row in rows] + [(s, "") for s in MODELS]
SMALL = [(stem, f"{row}:small" if row else "small") for stem, row in PAPER]
OTHERS = [("digits", ""), ("digits", "streaming"), ("librispeech_small", "")]
# Millions of parameters that the paper states, and the labels that these count; for Mandarin the
# 80 million of the config's docstring, and what the stated sizes of the deployed system come to.
STATED = {
    "table1": (38, 29),
    "table2": (38, 29),
    "table3": (38, 29),
    "table4": (35, 29),
    "table5": (35, 29),
    "table10": (68, 29),
    "ds2_english_100m": (100, 729),
    "ds2_mandarin": (80, 6000),
    "ds2_mandarin_deployed": (87.6, 6000),
}
BUILT = [
    ("table1", "5-1:small"),
    ("table3", "5-1-gru:small"),
    ("table4", "3x2d:small"),
    ("table5", "4-bigrams:small"),
    ("ds2_mandarin_deployed", "small"),
    *OTHERS,
]


def load(path):
    """Returns what the file defines."""
    return types.SimpleNamespace(**runpy.run_path(str(path)))


def settings_of(stem, argument):
    """Returns the settings as `--config=configs/STEM.py:ARGUMENT` would."""
    get_config = load(FOLDER / f"{stem}.py").get_config
    return config.with_defaults(get_config(argument) if argument else get_config())


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def count_parameters(run, num_labels):
    """Returns the trained values of a network, counted from its settings."""
    model = run.model

    def normalised(channels):
        return 2 * channels if model.batch_norm else channels  # gamma and beta, or the bias

    bins, channels = run.features.num_bins, 1
    if model.conv_dims == 1:
        bins, channels = 1, bins
    total = 0
    for outputs, kernel, stride in zip(
        model.conv_channels, model.conv_kernels, model.conv_strides, strict=True
    ):
        total += math.prod(kernel) * channels * outputs + normalised(outputs)
        bins, channels = math.ceil(bins / stride[1]), outputs
    width = bins * channels
    gates = {"rnn": 1, "gru": 3}[model.cell] * model.rnn_units
    for _ in range(model.rnn_layers):
        directions = 2 if model.bidirectional else 1
        total += width * gates + directions * model.rnn_units * gates + normalised(gates)
        width = model.rnn_units
    if model.lookahead:
        total += (model.lookahead + 1) * width + normalised(width)
    for _ in range(model.dense_layers):
        total += width * model.dense_units + normalised(model.dense_units)
        width = model.dense_units
    return total + (width + 1) * num_labels


def test_there_are_the_configs_of_the_readme():
    assert {stem for stem, _ in (*PAPER, *OTHERS)} <= {path.stem for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
class TestEachFile:
    def test_imports_only_ml_collections(self, path):
        assert set(imported(path)) == {"ml_collections"}

    def test_says_what_it_is_for(self, path):
        assert load(path).__doc__


@pytest.mark.parametrize(("stem", "argument"), [*PAPER, *SMALL, *OTHERS])
class TestEachConfig:
    def test_names_no_data_of_its_own(self, stem, argument):
        data = settings_of(stem, argument).data
        assert (data.train, data.dev) == ("", "")

    def test_is_made_anew_on_each_call(self, stem, argument):
        get_config = load(FOLDER / f"{stem}.py").get_config
        arguments = [argument] if argument else []
        get_config(*arguments).model.rnn_units = 7
        assert get_config(*arguments).model.rnn_units != 7

    def test_resolves_and_makes_its_alphabet(self, stem, argument):
        settings = settings_of(stem, argument)
        assert isinstance(settings, ConfigDict)
        run = config.resolve(settings)
        symbols = config.make_alphabet(run.alphabet, ["one two three"])
        assert isinstance(symbols, alphabet.Alphabet)

    def test_keys_can_be_set_but_not_invented(self, stem, argument):
        settings = settings_of(stem, argument)
        settings.model.rnn_units = 8
        assert config.resolve(settings).model.rnn_units == 8
        settings.model.rnn_unit = 8
        with pytest.raises(UserError, match="unknown key 'rnn_unit'; did you mean 'rnn_units'"):
            config.resolve(settings)


@pytest.mark.parametrize(("stem", "argument"), BUILT)
def test_the_network_is_built_with_as_many_parameters_as_counted(stem, argument):
    run = config.resolve(settings_of(stem, argument))
    num_labels = config.make_alphabet(run.alphabet, ["one two three"]).num_labels
    network = DeepSpeech2(run.model, run.features.num_bins, num_labels)
    assert network.output["logits"].shape == (None, None, num_labels)
    kernels = [v for v in network.trainable_variables if v.path.endswith("recurrent_kernel")]
    assert len(kernels) == run.model.rnn_layers
    built = sum(math.prod(weight.shape) for weight in network.trainable_weights)
    assert built == count_parameters(run, num_labels)


@pytest.mark.parametrize(("stem", "row"), PAPER)
def test_the_paper_s_models_have_its_number_of_parameters(stem, row):
    millions, num_labels = STATED[stem]
    run = config.resolve(settings_of(stem, row))
    assert count_parameters(run, num_labels) == pytest.approx(1e6 * millions, rel=0.04)


@pytest.mark.parametrize("stride", [2, 3, 4])
def test_pairs_of_characters_keep_the_size_of_table_5(stride):
    run = config.resolve(settings_of("table5", f"{stride}-bigrams"))
    assert count_parameters(run, 729) == pytest.approx(35e6, rel=0.04)


@pytest.mark.parametrize(("stem", "row"), PAPER)
def test_the_paper_s_models_train_as_in_the_paper(stem, row):
    run = config.resolve(settings_of(stem, row))
    assert run.features.num_bins == 161
    assert (run.optimizer.name, run.optimizer.momentum, run.optimizer.clip_norm) == (
        "sgd",
        0.99,
        400.0,
    )
    assert 1e-4 <= run.schedule.learning_rate <= 6e-4
    assert (run.schedule.anneal, run.training.num_epochs) == (1.2, 20)
    assert (run.batches.batch_size, run.augment.noise_share) == (512, 0.4)
    assert run.batches.sorted_epochs == (0 if "unsorted" in row else 1)


@pytest.mark.parametrize(("stem", "row"), PAPER)
def test_small_keeps_what_the_table_compares(stem, row):
    full = config.resolve(settings_of(stem, row))
    small = config.resolve(settings_of(stem, f"{row}:small" if row else "small"))
    assert count_parameters(small, 100) < 1e6
    assert small.features.sample_rate_hz == 8000
    assert small.optimizer.name == "adam"
    assert small.model.rnn_units < full.model.rnn_units
    for key in (
        "conv_dims",
        "conv_kernels",
        "conv_strides",
        "cell",
        "rnn_layers",
        "bidirectional",
        "lookahead",
        "dense_layers",
        "batch_norm",
    ):
        assert getattr(small.model, key) == getattr(full.model, key), key
    assert small.alphabet.kind == full.alphabet.kind
    assert small.batches.sorted_epochs == full.batches.sorted_epochs


def test_rows_differ_in_what_their_names_say():
    def model(stem, row):
        return config.resolve(settings_of(stem, row)).model

    assert not model("table1", "9-7").batch_norm
    assert model("table1", "9-7-bn").batch_norm
    for row, layers in (("5-1", (1, 3)), ("5-3", (3, 1)), ("7-5", (5, 1)), ("9-7", (7, 1))):
        shape = model("table1", row)
        assert (shape.rnn_layers, shape.dense_layers) == layers
    assert [model("table1", row).rnn_units for row in DEPTHS] == [2400, 1880, 1510, 1280]
    assert [model("table3", f"7-5-{cell}").cell for cell in ("rnn", "gru")] == ["rnn", "gru"]
    front_ends = [model("table4", row) for row in ROWS["table4"]]
    assert [m.conv_dims for m in front_ends] == [1, 1, 1, 2, 2, 2]
    assert [len(m.conv_channels) for m in front_ends] == [1, 2, 3, 1, 2, 3]
    assert [model("table5", row).time_stride for row in ROWS["table5"]] == [2, 3, 4, 2, 3, 4]
    assert model("ds2_english_100m", "").time_stride == 3
    assert model("ds2_mandarin_deployed", "").lookahead == 19


@pytest.mark.parametrize("argument", ["", "9-8", "9-7-bn:tiny", "small", "9-7-bn:small:small"])
@pytest.mark.parametrize("stem", ROWS)
def test_an_unknown_row_is_an_error_that_lists_the_rows(stem, argument):
    with pytest.raises(ValueError, match="ROW or ROW:small") as raised:
        load(FOLDER / f"{stem}.py").get_config(argument)
    message = str(raised.value)
    assert "\n" not in message
    assert f"ROW one of {', '.join(ROWS[stem])}. Received: {argument!r}" in message


@pytest.mark.parametrize("stem", MODELS)
def test_an_unknown_size_is_an_error(stem):
    message = rf"^configs/{stem}\.py, or with :small at its end\. Received: 'tiny'$"
    with pytest.raises(ValueError, match=message):
        load(FOLDER / f"{stem}.py").get_config("tiny")
