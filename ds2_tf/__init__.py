"""Deep Speech 2 on TensorFlow: train, decode, stream, serve and export speech recognisers."""
