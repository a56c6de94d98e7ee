"""Kernels of the extra `fluidlite[fast]`, and the choice between them and NumPy's."""
