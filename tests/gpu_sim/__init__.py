"""A CUDA device without a device: CuPy's arrays, streams and kernels on the CPU, stricter than its own."""
