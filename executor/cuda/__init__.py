"""Kernels of CUDA devices: text in CUDA C, and the objects of plans that launch it."""
