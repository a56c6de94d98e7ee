"""Passes over plans."""
