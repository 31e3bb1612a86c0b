"""Both clients against servers that answer as TensorFlow Serving does."""

import contextlib
import http.server
import itertools
import pathlib
import socket
import subprocess
import sys
import threading
from concurrent import futures

import numpy as np
import pytest
import soundfile

from ds2_tf.acoustic_model import AcousticModel
from ds2_tf.bin.program import UsageError
from ds2_tf.errors import UserError
from ds2_tf.streaming import StreamingModel
from ds2_tf.streaming_recognizer import StreamingRecognizer
from ds2_tf.transcribe import Transcriber
from tests import fake_serving
from tests.streaming_models import sound
from tools import serving_client, serving_client_grpc, serving_client_rest

ROOT = pathlib.Path(__file__).parents[2]
RATE_HZ = 8000
CLIENTS = {"grpc": serving_client_grpc, "rest": serving_client_rest}


@pytest.fixture(scope="module")
def model(streaming_workdir):
    return AcousticModel.load(streaming_workdir)


@pytest.fixture(scope="module")
def serving(streaming_export):
    return fake_serving.FakeServing(streaming_export)


@pytest.fixture(scope="module", params=["grpc", "rest"])
def client(request):
    if request.param == "grpc":
        pytest.importorskip("tensorflow_serving")
    return request.param


@pytest.fixture(scope="module")
def address(client, serving):
    with serve(client, serving) as address:
        yield address


def serve(client, serving):
    return fake_serving.grpc_server(serving) if client == "grpc" else fake_serving.rest(serving)


@pytest.fixture
def predict(client, address):
    return CLIENTS[client].connect(address, "tiny", 30.0)


def texts_of(model, utterances):
    recognizer = StreamingRecognizer(StreamingModel(model))
    for samples in utterances:
        recognizer.accept(samples)
        yield recognizer.finish().text


UTTERANCES = [sound(n, seed=n) for n in (5000, 0, 100, 9000)]


def test_description(predict):
    assert serving_client.describe(predict) == (RATE_HZ, True)


def test_transcribe(predict, model):
    found = [serving_client.transcribe(predict, samples) for samples in UTTERANCES]
    assert found == list(texts_of(model, UTTERANCES))
    assert found[1:3] == ["", ""]
    assert found[0] != found[3]


@pytest.mark.parametrize("chunk", [500, 1700])
def test_stream(predict, model, chunk):
    for samples, expected in zip(UTTERANCES, texts_of(model, UTTERANCES), strict=True):
        chunks = np.split(samples, range(chunk, len(samples), chunk))
        steps = list(serving_client.stream(predict, chunks))
        assert steps[-1] == (len(samples), expected)
        assert len(steps) == len(chunks)
        texts = [text for _, text in steps]
        assert all(new.startswith(old) for old, new in itertools.pairwise(texts))


def test_a_stream_without_any_chunk(predict):
    assert list(serving_client.stream(predict, [])) == [(0, "")]


def test_requests_of_different_lengths_are_joined(client, streaming_export, model):
    """Rows of a batch come from several clients, which stream and transcribe at once."""
    serving = fake_serving.FakeServing(streaming_export, wait_seconds=0.2)
    utterances = [sound(n, seed=n) for n in (7000, 0, 3100, 4800)]
    with serve(client, serving) as address, futures.ThreadPoolExecutor(8) as threads:
        predict = CLIENTS[client].connect(address, "tiny", 30.0)

        def stream(samples):
            *_, (_, text) = serving_client.stream(predict, np.array_split(samples, 3))
            return text

        streamed = threads.map(stream, utterances)
        whole = threads.map(lambda samples: serving_client.transcribe(predict, samples), utterances)
        expected = list(texts_of(model, utterances))
        assert list(whole) == expected
        assert list(streamed) == expected
    assert max(serving.batches) > 1


def test_states_survive_the_protocol(predict, serving):
    state = predict("stream_start", {"streams": np.zeros([2], np.int32)})
    inputs = {
        "waveform": np.stack([sound(1000, 1), sound(1000, 2)]),
        "waveform_lengths": np.array([1000, 700]),
        "final": np.array([False, False]),
    }
    specs = serving.specs("stream_step")
    typed = {
        name: np.asarray(value, specs[name].dtype.as_numpy_dtype)
        for name, value in {**inputs, **state}.items()
    }
    expected = serving.predict("tiny", "stream_step", typed)
    found = predict("stream_step", typed)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        same_type = np.asarray(found[name]).astype(value.dtype)
        np.testing.assert_array_equal(same_type, value, err_msg=name)


def failure(client, address, model="tiny", signature="describe", inputs=None, timeout=30.0):
    predict = CLIENTS[client].connect(address, model, timeout)
    with pytest.raises(UserError) as error:
        predict(signature, inputs or {"request": np.zeros([1], np.int32)})
    message = str(error.value)
    assert "\n" not in message
    return message.removeprefix(f"{address}: ")


def test_errors_of_the_server_are_told_in_one_line(client, address):
    codes = {"grpc": ("NOT_FOUND", "FAILED_PRECONDITION", "INVALID_ARGUMENT")}
    not_found, precondition, argument = codes.get(client, (404, 412, 400))
    assert failure(client, address, model="none") == (
        f"Servable not found for request: Latest(none) ({not_found}); name a model of this server "
        "by --model"
    )
    assert failure(client, address, signature="speak") == (
        f'Serving signature key "speak" not found. ({precondition}); the server\'s log may tell '
        "more"
    )
    inputs = {"waveform": np.zeros([1, 9], np.float32), "waveform_lengths": np.int32([10])}
    message = failure(client, address, signature="transcribe", inputs=inputs)
    assert "waveform_lengths must not exceed the samples of a row of waveform" in message
    assert message.endswith(f"({argument}); the server's log may tell more")


@pytest.fixture
def closed_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


def test_no_server(client, closed_port):
    if client == "rest":
        assert failure("rest", f"http://{closed_port}") == (
            "cannot be reached (Connection refused); start the server, or name another by --server"
        )
        return
    message = failure("grpc", closed_port)
    assert "Connection refused" in message
    assert message.endswith(
        "(UNAVAILABLE); start the server, name another by --server, or try again if it is busy"
    )


def test_no_answer_in_time(client):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        if client == "rest":
            assert failure("rest", f"http://{address}", timeout=0.2) == (
                "no answer in 0.2 s; raise --timeout_seconds, or send less at once"
            )
        else:
            message = failure("grpc", address, timeout=0.2)
            assert message.endswith(
                "(DEADLINE_EXCEEDED); raise --timeout_seconds, or send less at once"
            )


@contextlib.contextmanager
def other_server(status, content):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(
    ("status", "content", "message"),
    [
        (200, b"<html>hello</html>", "does not answer as TensorFlow Serving; name another"),
        (200, b'{"outputs": 3}', "does not answer as TensorFlow Serving; name another"),
        (200, b"[]", "does not answer as TensorFlow Serving; name another"),
        (503, b"<html>", "Service Unavailable (503); try again, it is busy"),
        (500, b'{"error": "no\\n  room"}', "no room (500); the server's log may tell more"),
    ],
)
def test_other_answers_over_rest(status, content, message):
    with other_server(status, content) as address:
        assert failure("rest", address).startswith(message)


def test_rest_needs_a_url():
    with pytest.raises(UsageError, match="--server must begin with http:// or https://"):
        serving_client_rest.connect("localhost:8501", "tiny", 1.0)


def test_chunks_as_spoken(monkeypatch):
    now = [10.0]
    monkeypatch.setattr(serving_client.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(
        serving_client.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds)
    )
    heard = []
    for chunk in serving_client.as_spoken([np.zeros(n) for n in (4000, 800, 8000)], RATE_HZ):
        heard.append((len(chunk), round(now[0], 3)))
        now[0] += 0.3  # the server's time
    assert heard == [(4000, 10.5), (800, 10.8), (8000, 11.6)]


def run(client, *arguments):
    return subprocess.run(
        [sys.executable, "-m", f"tools.serving_client_{client}", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def wavs(tmp_path):
    paths = [tmp_path / "a.wav", tmp_path / "b.flac"]
    soundfile.write(paths[0], sound(6000, 1), RATE_HZ)
    soundfile.write(paths[1], sound(8000, 2), 16000)
    return paths


def test_program_prints_what_the_transcriber_writes(client, address, wavs, streaming_workdir):
    done = run(client, f"--server={address}", "--model=tiny", *wavs)
    assert done.returncode == 0, done.stderr
    transcriber = Transcriber.load(streaming_workdir)
    expected = [f"{wav}\t{transcriber.transcribe(wav).text}" for wav in wavs]
    assert done.stdout.splitlines() == expected
    assert done.stderr == ""


def test_program_streams(address, client, wavs, streaming_workdir):
    done = run(client, f"--server={address}", "--model=tiny", "--stream", "--chunk_ms=100", wavs[0])
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [path for path, _, _ in lines] == [str(wavs[0])] * len(lines)
    seconds = [float(seconds) for _, seconds, _ in lines]
    assert seconds == sorted(seconds)
    texts = [text for _, _, text in lines]
    assert texts == sorted(set(texts), key=len)
    expected = Transcriber.load(streaming_workdir).transcribe(wavs[0]).text
    assert texts[-1] == expected
    assert len(texts) > 2


def call_main(monkeypatch, arguments, paths, description):
    monkeypatch.setattr(serving_client, "describe", lambda predict: description)
    serving_client.flags.FLAGS(["client", *arguments])
    return serving_client.main([str(path) for path in paths], lambda *_: None, "server")


@pytest.mark.parametrize(
    ("arguments", "paths", "message"),
    [
        ([], ["a.wav"], "--model is required"),
        (["--model=tiny"], [], "name at least one recording"),
        (["--model=tiny", "--live"], ["a.wav"], "--live needs --stream"),
    ],
)
@pytest.mark.usefixtures("clean_flags")
def test_wrong_usage(monkeypatch, arguments, paths, message):
    with pytest.raises(UsageError, match=message):
        call_main(monkeypatch, arguments, paths, None)


@pytest.fixture
def clean_flags():
    yield
    serving_client.flags.FLAGS.unparse_flags()
    for name in ("model", "stream", "live"):
        serving_client.flags.FLAGS[name].unparse()


@pytest.mark.usefixtures("clean_flags")
def test_bidirectional_models_cannot_stream(monkeypatch):
    with pytest.raises(UserError) as error:
        call_main(
            monkeypatch,
            ["--model=tiny", "--stream"],
            ["a.wav"],
            serving_client.Model(RATE_HZ, streams=False),
        )
    assert str(error.value) == (
        "tiny: the model is bidirectional and needs the whole recording; leave out --stream"
    )


@pytest.mark.usefixtures("clean_flags")
def test_long_recordings_do_not_go_in_one_request(monkeypatch, tmp_path):
    path = tmp_path / "talk.wav"
    soundfile.write(path, np.full(61 * RATE_HZ, 0.1), RATE_HZ)
    with pytest.raises(UserError) as error:
        call_main(monkeypatch, ["--model=tiny"], [path], serving_client.Model(RATE_HZ, True))
    assert str(error.value) == (
        f"{path}: has 61 s, and 60 s go in one request; use --stream, or `ds2 transcribe`"
    )


@pytest.mark.parametrize("program", ["grpc", "rest"])
def test_help_has_examples(program):
    done = run(program, "--help")
    assert done.returncode == 0
    assert f"Examples:\n  python -m tools.serving_client_{program} --model=digits" in done.stdout


def test_missing_package_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_serving", None)
    monkeypatch.setitem(sys.modules, "tensorflow_serving.apis", None)
    with pytest.raises(UserError) as error:
        serving_client_grpc.connect("localhost:8500", "tiny", 1.0)
    assert str(error.value) == ("tensorflow_serving.apis: not installed; pip install -e '.[serve]'")
