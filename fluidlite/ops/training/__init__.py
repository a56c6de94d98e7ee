"""Ops of training: parameter updates, rows of gradients, communication among processes."""
