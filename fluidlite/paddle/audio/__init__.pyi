# written by tests/house/stubs.py
"""`paddle.audio`: what signals of sound need."""

from fluidlite.paddle.audio import functional as functional
