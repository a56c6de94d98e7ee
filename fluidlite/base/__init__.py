"""The floor that every other room stands on: errors, data types, flags, places and the registry of ops."""
