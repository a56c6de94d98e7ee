# written by tests/house/stubs.py
"""`paddle.vision`: what images need"""

from fluidlite.paddle.vision import models as models
from fluidlite.paddle.vision import ops as ops
from fluidlite.paddle.vision import transforms as transforms
