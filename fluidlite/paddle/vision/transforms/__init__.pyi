# written by tests/house/stubs.py
"""`paddle.vision.transforms`: images changed on their way into a program"""

from fluidlite.paddle.vision.transforms import functional as functional
from fluidlite.paddle.vision.transforms.base import BaseTransform as BaseTransform
from fluidlite.paddle.vision.transforms.base import Compose as Compose
from fluidlite.paddle.vision.transforms.colours import BrightnessTransform as BrightnessTransform
from fluidlite.paddle.vision.transforms.colours import ColorJitter as ColorJitter
from fluidlite.paddle.vision.transforms.colours import ContrastTransform as ContrastTransform
from fluidlite.paddle.vision.transforms.colours import Grayscale as Grayscale
from fluidlite.paddle.vision.transforms.colours import HueTransform as HueTransform
from fluidlite.paddle.vision.transforms.colours import SaturationTransform as SaturationTransform
from fluidlite.paddle.vision.transforms.functional import adjust_brightness as adjust_brightness
from fluidlite.paddle.vision.transforms.functional import adjust_contrast as adjust_contrast
from fluidlite.paddle.vision.transforms.functional import adjust_hue as adjust_hue
from fluidlite.paddle.vision.transforms.functional import adjust_saturation as adjust_saturation
from fluidlite.paddle.vision.transforms.functional import affine as affine
from fluidlite.paddle.vision.transforms.functional import center_crop as center_crop
from fluidlite.paddle.vision.transforms.functional import crop as crop
from fluidlite.paddle.vision.transforms.functional import erase as erase
from fluidlite.paddle.vision.transforms.functional import hflip as hflip
from fluidlite.paddle.vision.transforms.functional import normalize as normalize
from fluidlite.paddle.vision.transforms.functional import pad as pad
from fluidlite.paddle.vision.transforms.functional import perspective as perspective
from fluidlite.paddle.vision.transforms.functional import resize as resize
from fluidlite.paddle.vision.transforms.functional import rotate as rotate
from fluidlite.paddle.vision.transforms.functional import to_grayscale as to_grayscale
from fluidlite.paddle.vision.transforms.functional import to_tensor as to_tensor
from fluidlite.paddle.vision.transforms.functional import vflip as vflip
from fluidlite.paddle.vision.transforms.grids import CenterCrop as CenterCrop
from fluidlite.paddle.vision.transforms.grids import Normalize as Normalize
from fluidlite.paddle.vision.transforms.grids import Pad as Pad
from fluidlite.paddle.vision.transforms.grids import RandomAffine as RandomAffine
from fluidlite.paddle.vision.transforms.grids import RandomCrop as RandomCrop
from fluidlite.paddle.vision.transforms.grids import RandomErasing as RandomErasing
from fluidlite.paddle.vision.transforms.grids import RandomHorizontalFlip as RandomHorizontalFlip
from fluidlite.paddle.vision.transforms.grids import RandomHorizontalFlip as _RandomHorizontalFli
from fluidlite.paddle.vision.transforms.grids import RandomPerspective as RandomPerspective
from fluidlite.paddle.vision.transforms.grids import RandomResizedCrop as RandomResizedCrop
from fluidlite.paddle.vision.transforms.grids import RandomRotation as RandomRotation
from fluidlite.paddle.vision.transforms.grids import RandomVerticalFlip as RandomVerticalFlip
from fluidlite.paddle.vision.transforms.grids import Resize as Resize
from fluidlite.paddle.vision.transforms.grids import ToTensor as ToTensor
from fluidlite.paddle.vision.transforms.grids import Transpose as Transpose

RandomHorizontalFli = _RandomHorizontalFli
