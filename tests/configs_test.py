import ast
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


def load(path):
    """Returns what the file defines."""
    return types.SimpleNamespace(**runpy.run_path(str(path)))


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def test_there_are_the_configs_of_the_readme():
    assert {"digits.py", "librispeech_small.py"} <= {path.name for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
class TestEachConfig:
    def test_imports_only_ml_collections(self, path):
        assert set(imported(path)) == {"ml_collections"}

    def test_says_what_it_is_for(self, path):
        assert load(path).__doc__

    def test_names_no_data_of_its_own(self, path):
        data = load(path).get_config().data
        assert (data.train, data.dev) == ("", "")

    def test_is_made_anew_on_each_call(self, path):
        module = load(path)
        module.get_config().training.seed = 7
        assert module.get_config().training.seed == 0

    def test_resolves_and_builds_its_model(self, path):
        settings = load(path).get_config()
        assert isinstance(settings, ConfigDict)
        run = config.resolve(settings)
        symbols = config.make_alphabet(run.alphabet, ["ab"])
        assert isinstance(symbols, alphabet.Alphabet)
        network = DeepSpeech2(run.model, run.features.num_bins, symbols.num_labels)
        assert network.output["logits"].shape == (None, None, symbols.num_labels)
        kernels = [v for v in network.trainable_variables if v.path.endswith("recurrent_kernel")]
        assert len(kernels) == run.model.rnn_layers

    def test_keys_can_be_set_but_not_invented(self, path):
        settings = load(path).get_config()
        settings.model.rnn_units = 8
        assert config.resolve(settings).model.rnn_units == 8
        settings.model.rnn_unit = 8
        with pytest.raises(UserError, match="unknown key 'rnn_unit'; did you mean 'rnn_units'"):
            config.resolve(settings)
