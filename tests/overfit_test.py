"""The whole path from real speech to text can learn: twenty utterances by heart."""

import pathlib

import pytest

from configs import librispeech_small
from ds2_tf import config, evaluate, manifest, train
from ds2_tf.acoustic_model import AcousticModel

LIBRISPEECH = pathlib.Path(__file__).parent / "data" / "librispeech" / "manifest.jsonl"


@pytest.mark.slow
def test_twenty_utterances_are_learnt_by_heart(tmp_path):
    values = librispeech_small.get_config()
    values.data.train = values.data.dev = str(LIBRISPEECH)
    values.augment.speed = (1.0, 1.0)
    values.augment.noise_share = 0.0
    values.model.dropout = 0.0
    values.model.rnn_layers = 2
    values.batches.batch_size = 10
    values.batches.num_buckets = 1  # batches of one or two would train on statistics of their own
    values.schedule.learning_rate = 2e-3
    values.schedule.anneal = 1.01
    values.schedule.warmup_steps = 10
    values.training.num_epochs = 200
    train.train(config.resolve(values), tmp_path)
    result = evaluate.evaluate(AcousticModel.load(tmp_path), manifest.read(LIBRISPEECH))
    assert result.word.reference_units > 100
    assert result.word.rate == 0, evaluate.report(result)
