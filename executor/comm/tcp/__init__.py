"""Trainers and servers that are started one by one, connected over TCP."""
