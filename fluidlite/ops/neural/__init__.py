"""Ops of neural networks: convolution, pooling, normalisation, recurrent units, look-ups, images."""
