"""Rings of CUDA devices."""
