"""The parts that run each step: bound plans, kernels, the naive interpreter, feeds, threads, devices."""
