"""Servers that answer as TensorFlow Serving does, in the process of a test.

They run a SavedModel's signatures. What they imitate: which requests are refused and how, that
requests which wait are joined (rows of shorter waveforms padded with the request's first element)
and divided, the fields of the protocol buffers, and how JSON stands for tensors, which loses types
and the shapes of what is empty.
"""

import contextlib
import http.server
import json
import threading
import time
from concurrent import futures

import numpy as np
import tensorflow as tf

HTTP_STATUS = {"NOT_FOUND": 404, "INVALID_ARGUMENT": 400, "FAILED_PRECONDITION": 412}


class Refusal(Exception):
    """An error that the server answers with: code and message."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code, self.message = code, message


class FakeServing:
    """A SavedModel that is called by requests of several threads.

    Attributes:
      batches: how many requests each run had.
    """

    def __init__(self, folder, name="tiny", wait_seconds=0.0):
        self._signatures = tf.saved_model.load(str(folder)).signatures
        self._name = name
        self._wait_seconds = wait_seconds
        self._lock = threading.Lock()
        self._queues = {}
        self.batches = []

    def specs(self, signature):
        if signature not in self._signatures:
            raise Refusal("FAILED_PRECONDITION", f'Serving signature key "{signature}" not found.')
        return self._signatures[signature].structured_input_signature[1]

    def predict(self, model, signature, inputs):
        """Returns outputs by name; inputs are NumPy arrays of the right types."""
        if model != self._name:
            raise Refusal("NOT_FOUND", f"Servable not found for request: Latest({model})")
        specs = self.specs(signature)
        if inputs.keys() != specs.keys():
            raise Refusal("INVALID_ARGUMENT", "input size does not match signature")
        for name, spec in specs.items():
            if not spec.is_compatible_with(tf.constant(inputs[name])):
                raise Refusal("INVALID_ARGUMENT", f"{name} has another type or shape")
        if len({len(value) for value in inputs.values()}) != 1:
            raise Refusal("INVALID_ARGUMENT", "inputs must have equal 0th-dimension size")
        future = futures.Future()
        with self._lock:
            queue = self._queues.setdefault(signature, [])
            queue.append((inputs, future))
            first = len(queue) == 1
        if first:
            time.sleep(self._wait_seconds)
            with self._lock:
                batch, self._queues[signature] = queue, []
            self._run(signature, batch)
        return future.result(timeout=30)

    def _run(self, signature, batch):
        self.batches.append(len(batch))
        try:
            rows = [len(next(iter(inputs.values()))) for inputs, _ in batch]
            joined = {
                name: tf.constant(_joined([inputs[name] for inputs, _ in batch]))
                for name in batch[0][0]
            }
            outputs = self._signatures[signature](**joined)
            outputs = {name: tensor.numpy() for name, tensor in outputs.items()}
            for (_, future), first, count in zip(batch, np.cumsum([0, *rows]), rows, strict=False):
                future.set_result({k: v[first : first + count] for k, v in outputs.items()})
        except tf.errors.InvalidArgumentError as error:
            for _, future in batch:
                future.set_exception(Refusal("INVALID_ARGUMENT", error.message))
        except Refusal as error:
            for _, future in batch:
                future.set_exception(error)


def _joined(arrays):
    """Puts rows together; shorter ones are padded with the first element of their request."""
    largest = np.max([array.shape[1:] for array in arrays], axis=0).astype(int)
    padded = []
    for array in arrays:
        shortfall = largest - array.shape[1:]
        missing = [(0, 0), *((0, n) for n in shortfall)]
        if np.any(missing) and not array.size:
            raise Refusal("INVALID_ARGUMENT", "Got empty tensor in batch of non-empty tensors.")
        padded.append(np.pad(array, missing, constant_values=array.flat[0] if array.size else 0))
    return np.concatenate(padded)


@contextlib.contextmanager
def rest(serving):
    """Yields the address of a server for REST."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                outputs = self._outputs(body)
                lists = {name: _as_json(value) for name, value in outputs.items()}
                self._reply(200, {"outputs": lists})
            except Refusal as error:
                self._reply(HTTP_STATUS[error.code], {"error": error.message})

        def _outputs(self, body):
            model = self.path.removeprefix("/v1/models/").removesuffix(":predict")
            signature = body.get("signature_name", "serving_default")
            specs = serving.specs(signature)
            for name in specs.keys() - body["inputs"].keys():
                raise Refusal("INVALID_ARGUMENT", f"Missing named input: {name}")
            inputs = {name: _from_json(body["inputs"][name], spec) for name, spec in specs.items()}
            return serving.predict(model, signature, inputs)

        def _reply(self, status, content):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _from_json(value, spec):
    """The shape is that of the lists, whatever the signature says; no type is converted."""
    array = np.asarray(value)
    kinds = {tf.float32: "fi", tf.int32: "i", tf.bool: "b"}[spec.dtype]
    if array.size and array.dtype.kind not in kinds:
        raise Refusal("INVALID_ARGUMENT", f"JSON Value: {value} is not of expected type")
    return array.astype(spec.dtype.as_numpy_dtype)


def _as_json(array):
    if array.dtype == np.float32:  # as few digits as give the same float32
        return np.reshape([float(str(x)) for x in array.flat], array.shape).tolist()
    if array.dtype == object:
        return [text.decode("utf-8") for text in array]
    return array.tolist()


@contextlib.contextmanager
def grpc_server(serving):
    """Yields the address of a server for gRPC."""
    import grpc
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    class Servicer(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request, context):
            spec = request.model_spec
            inputs = {name: tf.make_ndarray(tensor) for name, tensor in request.inputs.items()}
            try:
                outputs = serving.predict(spec.name, spec.signature_name, inputs)
            except Refusal as error:
                context.abort(getattr(grpc.StatusCode, error.code), error.message)
            response = predict_pb2.PredictResponse()
            for name, value in outputs.items():
                response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
            return response

    server = grpc.server(futures.ThreadPoolExecutor(8))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(grace=None).wait()
