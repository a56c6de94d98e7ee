"""Layers that make, reshape, index and search tensors."""
