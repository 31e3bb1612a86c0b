"""C++ and CUDA: the algorithms, free of TensorFlow, and the operations around them."""
