# written by tests/house/stubs.py
"""`paddle.audio`: what signals of sound need."""

from fluidlite.paddle.audio import backends as backends
from fluidlite.paddle.audio import datasets as datasets
from fluidlite.paddle.audio import features as features
from fluidlite.paddle.audio import functional as functional
from fluidlite.paddle.audio.backends import info as info
from fluidlite.paddle.audio.backends import load as load
from fluidlite.paddle.audio.backends import save as save
