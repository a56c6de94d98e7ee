"""Ops on sequences, and on the paths through them."""
