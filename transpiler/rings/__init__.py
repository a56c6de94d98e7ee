"""Collective jobs: every rank holds the whole program, and ops in it reduce over rings of ranks."""
