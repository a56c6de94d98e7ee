# written by tests/house/stubs.py
"""`paddle.vision`: what images need"""

from fluidlite.paddle.vision import datasets as datasets
from fluidlite.paddle.vision import image as image
from fluidlite.paddle.vision import models as models
from fluidlite.paddle.vision import ops as ops
from fluidlite.paddle.vision import transforms as transforms
from fluidlite.paddle.vision.image import get_image_backend as get_image_backend
from fluidlite.paddle.vision.image import image_load as image_load
from fluidlite.paddle.vision.image import set_image_backend as set_image_backend
