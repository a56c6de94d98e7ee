"""Ops that make, reshape, index and reorder tensors."""
