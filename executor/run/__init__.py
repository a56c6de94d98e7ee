"""What runs each step: bound plans, kernels, the naive interpreter, feeds, threads, devices."""
