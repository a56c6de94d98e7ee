"""oneDNN: its library, its primitives, and the kernels that are made of them."""
