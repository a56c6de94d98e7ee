"""Layers of neural networks: convolution, normalisation, losses, images, tags."""
