# written by tests/house/stubs.py
"""`paddle.audio.datasets`: sounds with labels, from files that are there already."""

from fluidlite.paddle.audio.datasets.sounds import ESC50 as ESC50
from fluidlite.paddle.audio.datasets.sounds import TESS as TESS
