import logging
import subprocess
import sys

import pytest
import tensorflow as tf

from ds2_tf import memory
from ds2_tf.memory import Execution, MemoryConfig, MemoryPlanner
from ds2_tf.model import DeepSpeech2, ModelConfig

BINS, LABELS = 20, 6
SMALL = {
    "conv_channels": (3,),
    "conv_kernels": ((5, 7),),
    "conv_strides": ((2, 2),),
    "rnn_layers": 2,
    "rnn_units": 8,
}


def make_network(precision="float32", **settings):
    tf.keras.utils.set_random_seed(1)
    return DeepSpeech2(ModelConfig(**{**SMALL, **settings}), BINS, LABELS, precision)


MEASURE = """
import re, sys
import tensorflow as tf
from ds2_tf import memory, model, optimizer, train_step
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
network = model.DeepSpeech2(model.ModelConfig(
    conv_dims=1, conv_channels=(256,), conv_kernels=((11, 1),), conv_strides=((2, 1),),
    cell="rnn", rnn_layers=5, rnn_units=256), 161, 29)
update = optimizer.make(optimizer.OptimizerConfig())
update.build(network.trainable_variables)
step = train_step.TrainStep(tf.distribute.get_strategy(), network, update, 400.0)
execution = memory.Execution(sys.argv[1] == "recompute", 1)
def run(rows, frames):
    step.compute({
        "utterance_index": tf.range(rows), "features": tf.random.normal([rows, frames, 161]),
        "feature_lengths": tf.fill([rows], frames), "labels": tf.ones([rows, 5], tf.int32),
        "label_lengths": tf.ones([rows], tf.int32)}, execution)
    # Not getrusage: its peak begins with that of the process that started this one.
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
before = run(1, 50)
planner = memory.MemoryPlanner(memory.MemoryConfig(), network, "float32")
print(run(16, 1200) - before, planner.predict(16, 1200, execution.recompute) / 2**20)
"""


def measure(how):
    result = subprocess.run(
        [sys.executable, "-c", MEASURE, how], capture_output=True, text=True, check=True
    )
    return map(float, result.stdout.split())


def test_recomputation_saves_memory_and_the_prediction_is_near():
    kept, predicted = measure("keep")
    recomputed, predicted_recomputed = measure("recompute")
    assert recomputed < 0.6 * kept
    assert 0.5 < kept / predicted < 1.5
    assert 0.5 < recomputed / predicted_recomputed < 1.5


def test_a_budget_decides_from_cheap_to_dear(caplog):
    network = make_network()
    free = MemoryPlanner(MemoryConfig(budget_mib=10_000), network, "float32")
    assert free.choose(8, 1000) == memory.AS_IT_IS
    needed = free.predict(8, 1000)
    recomputed = free.predict(8, 1000, recompute=True)
    half = free.predict(4, 1000, recompute=True)
    assert half < recomputed < needed
    chosen = []
    with caplog.at_level(logging.WARNING, logger="absl"):
        for budget in (needed, recomputed, half, 1):
            planner = MemoryPlanner(MemoryConfig(budget_mib=1), network, "float32")
            planner._budget = budget
            chosen.append(planner.choose(8, 1000))
    assert chosen == [
        memory.AS_IT_IS,
        Execution(True, 1),
        Execution(True, 2),
        Execution(True, 8),
    ]
    assert "in 2 parts, each with batch statistics of its own" in caplog.text
    never = MemoryPlanner(MemoryConfig(budget_mib=1, fallback=False), network, "float32")
    assert never.choose(10_000, 10_000) == memory.AS_IT_IS


def test_a_failure_leads_to_the_next_way_and_is_remembered():
    planner = MemoryPlanner(MemoryConfig(budget_mib=10_000), make_network(), "float32")
    tried = [planner.choose(4, 1000)]
    while (again := planner.after_failure(tried[-1], 4, 1000)) is not None:
        tried.append(again)
    assert tried == [
        Execution(False, 1),
        Execution(True, 1),
        Execution(True, 2),
        Execution(True, 4),
    ]
    assert planner.choose(4, 1000) == Execution(True, 4)
    assert planner.choose(1, 10) == memory.AS_IT_IS


def test_without_fallback_a_failure_is_final():
    planner = MemoryPlanner(MemoryConfig(fallback=False), make_network(), "float32")
    assert planner.after_failure(memory.AS_IT_IS, 4, 1000) is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budget_mib": -1}, "budget_mib must be >= 0. Received: -1"),
        ({"gpu_growth": True, "gpu_limit_mib": 5}, "set one of them. Received: gpu_limit_mib=5"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        MemoryConfig(**settings)


def test_gpu_options_reach_tensorflow(monkeypatch):
    """With a faked device: no GPU is needed to see what would be set."""
    made = []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["gpu0"])
    monkeypatch.setattr(
        tf.config.experimental, "set_memory_growth", lambda *settings: made.append(settings)
    )
    monkeypatch.setattr(
        tf.config,
        "set_logical_device_configuration",
        lambda gpu, devices: made.append((gpu, devices[0].memory_limit)),
    )
    memory.set_up_gpus(MemoryConfig())
    memory.set_up_gpus(MemoryConfig(gpu_growth=True))
    memory.set_up_gpus(MemoryConfig(gpu_limit_mib=2000))
    assert made == [("gpu0", True), ("gpu0", 2000)]
