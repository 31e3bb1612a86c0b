import json
import logging
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from ds2_tf import distribution
from ds2_tf.errors import UserError

# How many logical CPUs there are is settled when TensorFlow starts: a process of its own has two.
TWO_REPLICAS = """
import json
import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
from absl import logging
from ds2_tf import distribution, optimizer

logging.set_verbosity(logging.INFO)
strategy = distribution.connect().strategy
batch = {
    "utterance_index": tf.constant([3, 1, 4, -1, 5, -1]),
    "features": tf.reshape(tf.range(36.0), [6, 3, 2]),
}
with strategy.scope():
    variables = {name: keras.Variable([1.0, 2.0]) for name in ("sgd", "adam")}
    updates = {}
    for name, variable in variables.items():
        updates[name] = optimizer.make(optimizer.OptimizerConfig(name, momentum=0.5))
        updates[name].build([variable])
        updates[name].learning_rate.assign(0.1)

def replica_step(batch):
    context = tf.distribute.get_replica_context()
    share = distribution.share_of_replica(batch, strategy)
    own = tf.cast(share["utterance_index"][:2], tf.float32)
    gradient = context.all_reduce(tf.distribute.ReduceOp.SUM, own)
    for name, variable in variables.items():
        updates[name].apply([gradient], [variable])
    return share["utterance_index"], share["features"], gradient

@tf.function
def step(batch):
    return strategy.run(replica_step, (batch,))

results = [strategy.experimental_local_results(value) for value in step(batch)]
print(json.dumps({
    "num_replicas": strategy.num_replicas_in_sync,
    "devices": list(strategy.extended.worker_devices),
    "shares": [value.numpy().tolist() for value in results[0]],
    "features": [value.numpy().tolist() for value in results[1]],
    "gradients": [value.numpy().tolist() for value in results[2]],
    "variables": {
        name: [v.numpy().tolist() for v in strategy.experimental_local_results(variable.value)]
        for name, variable in variables.items()
    },
}))
"""


@pytest.fixture(scope="module")
def two_replicas():
    result = subprocess.run(
        [sys.executable, "-c", TWO_REPLICAS],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1]) | {"log": result.stderr}


def test_all_logical_cpus_take_part(two_replicas):
    assert two_replicas["num_replicas"] == 2
    assert [device.rpartition("/")[2] for device in two_replicas["devices"]] == [
        "device:CPU:0",
        "device:CPU:1",
    ]
    assert "training on /device:CPU:0, /device:CPU:1 (ReductionToOneDevice)" in two_replicas["log"]


def test_replicas_share_the_rows_of_a_batch(two_replicas):
    assert two_replicas["shares"] == [[3, 1, 4], [-1, 5, -1]]
    features = np.arange(36.0).reshape(6, 3, 2)
    np.testing.assert_array_equal(np.concatenate(two_replicas["features"]), features)


def test_a_summed_gradient_is_applied_once_on_each_replica(two_replicas):
    """Not summed once more by Keras, which would double it."""
    gradient = np.array([3 - 1, 1 + 5])
    assert two_replicas["gradients"] == [gradient.tolist()] * 2
    sgd = np.array([1.0, 2.0]) - 0.1 * gradient * (1 + 0.5)  # the first Nesterov step
    adam = np.array([1.0, 2.0]) - 0.1  # Adam's first step has the size of the rate
    for name, expected in (("sgd", sgd), ("adam", adam)):
        for copy in two_replicas["variables"][name]:
            np.testing.assert_allclose(copy, expected, rtol=1e-5)


def test_one_device_takes_the_whole_batch(caplog):
    with caplog.at_level(logging.INFO, logger="absl"):
        workers = distribution.connect()
    strategy = workers.strategy
    assert (workers.index, workers.count, workers.num_replicas) == (0, 1, 1)
    (message,) = [m for m in caplog.messages if m.startswith("training on")]
    assert message == "training on /device:CPU:0 (no reduction)"
    batch = {"utterance_index": tf.constant([2, 0, 1]), "labels": tf.zeros([3, 4], tf.int32)}

    def replica_step():
        share = distribution.share_of_replica(batch, strategy)
        return share["utterance_index"], share["labels"]

    indices, labels = strategy.run(replica_step)
    np.testing.assert_array_equal(indices, [2, 0, 1])
    assert labels.shape == (3, 4)


def test_two_gpus_sum_with_nccl(monkeypatch, caplog):
    """With a faked list of devices: no GPU is needed to see what would be chosen."""
    names = ["/device:GPU:0", "/device:GPU:1"]
    gpus = [tf.config.LogicalDevice(name, "GPU") for name in names]
    made = []
    monkeypatch.setattr(tf.config, "list_logical_devices", {"GPU": gpus}.__getitem__)
    monkeypatch.setattr(
        tf.distribute, "MirroredStrategy", lambda *arguments: made.append(arguments)
    )
    with caplog.at_level(logging.INFO, logger="absl"):
        distribution.connect()
    ((devices, cross_device_ops),) = made
    assert devices == names
    assert isinstance(cross_device_ops, tf.distribute.NcclAllReduce)
    assert "training on /device:GPU:0, /device:GPU:1 (NcclAllReduce)" in caplog.messages


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "TF_CONFIG: cannot be understood (JSONDecodeError"),
        ('{"cluster": {}}', "TF_CONFIG: cannot be understood (KeyError: 'worker')"),
        (
            '{"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": "ps", "index": 0}}',
            "TF_CONFIG: all tasks must be of type 'worker'; worker 0 is the chief",
        ),
        (
            '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 2}}',
            "TF_CONFIG: task index 2 is none of the 2 workers",
        ),
    ],
)
def test_a_wrong_cluster_is_one_clear_line(monkeypatch, text, message):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(UserError) as caught:
        distribution.connect()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_cluster_of_one_worker_is_this_process_alone(monkeypatch):
    monkeypatch.setenv(
        "TF_CONFIG", '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}'
    )
    workers = distribution.connect()
    assert workers.count == 1
    assert isinstance(workers.strategy, tf.distribute.MirroredStrategy)


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_parts_of_rows_are_all_rows_in_order_and_none_is_empty(parts):
    batch = {"utterance_index": tf.range(5), "labels": tf.reshape(tf.range(10), [5, 2])}
    cut = [distribution.part_of_rows(batch, part, parts) for part in range(parts)]
    assert [i for part in cut for i in part["utterance_index"].numpy()] == list(range(5))
    sizes = [len(part["labels"]) for part in cut]
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1


def test_an_error_of_tensorflow_stays_when_there_is_one_worker():
    with (
        pytest.raises(tf.errors.UnavailableError),
        distribution.Workers(tf.distribute.get_strategy()).lost_ones_told(),
    ):
        raise tf.errors.UnavailableError(None, None, "gone")
    with (
        pytest.raises(UserError, match="worker 1 of 2 lost another one .UnavailableError."),
        distribution.Workers(tf.distribute.get_strategy(), 1, 2).lost_ones_told(),
    ):
        raise tf.errors.UnavailableError(None, None, "gone")
