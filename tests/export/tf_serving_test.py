import numpy as np
import pytest
import tensorflow as tf

from ds2_tf.errors import UserError
from export import tf_serving

WARM_UP = tf_serving.WARM_UP_FILE


@pytest.mark.parametrize(
    ("names", "version"),
    [
        (None, "1"),
        ([], "1"),
        (["1"], "2"),
        (["2", "10"], "11"),
        (["batching.config", ".3.abc", "v7", "²"], "1"),
        (["0007"], "8"),
    ],
)
def test_next_version(tmp_path, names, version):
    folder = tmp_path / "digits"
    for name in names or []:
        (folder / name).mkdir(parents=True)
    assert tf_serving.next_version(folder) == folder / version


def test_no_versions_inside_a_saved_model(tmp_path):
    (tmp_path / "saved_model.pb").write_text("")
    with pytest.raises(UserError) as error:
        tf_serving.next_version(tmp_path)
    assert str(error.value) == (
        f"{tmp_path}: is a SavedModel itself, and cannot hold versions of one; choose another "
        "--output"
    )


def test_batching_config_is_what_the_server_reads(tmp_path):
    tf_serving.write_batching_config(tmp_path)
    lines = (tmp_path / "batching.config").read_text().splitlines()
    values = [line for line in lines if line and line[0] != "#"]
    assert values == [
        "max_batch_size { value: 16 }",
        "batch_timeout_micros { value: 5000 }",
        "num_batch_threads { value: 4 }",
        "max_enqueued_batches { value: 64 }",
        "pad_variable_length_inputs: true",
    ]


def test_batching_config_of_the_user_is_kept(tmp_path):
    (tmp_path / "batching.config").write_text("max_batch_size { value: 1 }")
    tf_serving.write_batching_config(tmp_path)
    assert (tmp_path / "batching.config").read_text() == "max_batch_size { value: 1 }"


def test_docker_command(tmp_path):
    assert tf_serving.docker_command(tmp_path / "digits") == (
        f"docker run --rm -p 8500:8500 -p 8501:8501 -v {tmp_path}/digits:/models/digits "
        "-e MODEL_NAME=digits tensorflow/serving --enable_batching "
        "--batching_parameters_file=/models/digits/batching.config"
    )
    assert f"-v '{tmp_path}/my digits:/models/my digits' " in tf_serving.docker_command(
        tmp_path / "my digits"
    )


@pytest.mark.parametrize("num_bytes", [0, 1, 127, 128, 300, 20000])
def test_prediction_log_is_what_the_servers_protos_read(num_bytes):
    prediction_log_pb2 = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    inputs = {"x" * num_bytes: np.arange(3, dtype=np.int32), "y": np.array([[True]])}
    log = prediction_log_pb2.PredictionLog.FromString(tf_serving.prediction_log("a", inputs))
    request = log.predict_log.request
    assert request.model_spec.signature_name == "a"
    assert request.inputs.keys() == inputs.keys()
    for name, value in inputs.items():
        np.testing.assert_array_equal(tf.make_ndarray(request.inputs[name]), value)


def test_warm_up_requests_run(streaming_export):
    prediction_log_pb2 = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    loaded = tf.saved_model.load(str(streaming_export))
    names = []
    for record in tf.data.TFRecordDataset(str(streaming_export / WARM_UP)):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        request = log.predict_log.request
        names.append(request.model_spec.signature_name)
        inputs = {
            name: tf.io.parse_tensor(t.SerializeToString(), t.dtype)
            for name, t in request.inputs.items()
        }
        outputs = loaded.signatures[names[-1]](**inputs)
        assert all(len(output) == 1 for output in outputs.values())
    assert names == ["transcribe", "stream_start", "stream_step"]
