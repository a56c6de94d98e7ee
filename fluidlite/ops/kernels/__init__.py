"""Computation that several ops share: plans, scratch buffers, steps of recurrences."""
