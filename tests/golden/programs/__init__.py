"""The golden programs, by family."""
