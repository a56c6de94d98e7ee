"""Ops that compare predictions with what they should be: losses, sampled losses, metrics."""
