"""Layers of recurrent networks: cells, units, loops over sequences, decoders."""
