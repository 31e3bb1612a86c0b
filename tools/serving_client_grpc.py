"""Transcribes recordings by a model on TensorFlow Serving, over gRPC.

It takes all that `ds2 transcribe` takes, and prints a line for each recording: path, tab, text.
With --stream it sends a recording in pieces, and prints a line whenever the text has grown: path,
seconds sent, text so far. The protocol's messages come from tensorflow-serving-api:
pip install -e '.[serve]'. docs/serving.md tells how to start a server.

Examples:
  python -m tools.serving_client_grpc --model=digits recording.wav
  python -m tools.serving_client_grpc --server=speech.example:8500 --model=digits a.wav b.flac
  python -m tools.serving_client_grpc --model=digits --stream --chunk_ms=100 --live recording.wav
"""

import os

import numpy as np

from ds2_tf.bin import program
from ds2_tf.errors import UserError
from tools import serving_client

_REMEDIES = {
    "DEADLINE_EXCEEDED": "raise --timeout_seconds, or send less at once",
    "NOT_FOUND": "name a model of this server by --model",
    "UNAVAILABLE": "start the server, name another by --server, or try again if it is busy",
}


def connect(server: str, model: str, timeout_seconds: float) -> serving_client.Predict:
    """Returns the requests to a model: see `serving_client`.

    The connection is neither encrypted nor authenticated.

    Raises:
      UserError: when tensorflow-serving-api is missing; a request raises it when it fails.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    program.load_tensorflow()
    import tensorflow as tf

    try:
        import grpc
        from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc
    except ImportError as error:
        raise UserError(f"{error.name}: not installed; pip install -e '.[serve]'") from error

    channel = grpc.insecure_channel(server, options=[("grpc.max_receive_message_length", -1)])
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)

    def predict(signature: str, inputs: serving_client.Arrays) -> dict[str, np.ndarray]:
        request = predict_pb2.PredictRequest()
        request.model_spec.name = model
        request.model_spec.signature_name = signature
        for name, value in inputs.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
        try:
            response = stub.Predict(request, timeout=timeout_seconds)
        except grpc.RpcError as error:
            code = error.code().name
            details = " ".join(error.details().split())
            remedy = _REMEDIES.get(code, "the server's log may tell more")
            raise UserError(f"{server}: {details} ({code}); {remedy}") from error
        return {name: tf.make_ndarray(tensor) for name, tensor in response.outputs.items()}

    return predict


def main(arguments: list[str]) -> int:
    """Prints what is said in the files."""
    return serving_client.main(arguments, connect, "localhost:8500")


if __name__ == "__main__":
    program.run(main)
