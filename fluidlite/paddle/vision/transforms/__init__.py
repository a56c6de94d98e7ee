"""`paddle.vision.transforms`: images changed on their way into a program"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_HOME = "fluidlite.paddle.vision.transforms"
_NAMES = LazyNames(
    __name__,
    {
        f"{_HOME}.functional": "adjust_brightness adjust_contrast adjust_hue adjust_saturation affine "
        "center_crop crop erase hflip normalize pad perspective resize rotate to_grayscale to_tensor vflip",
        f"{_HOME}.base": "BaseTransform Compose",
        f"{_HOME}.grids": "CenterCrop Normalize Pad RandomAffine RandomCrop RandomErasing "
        # the documentation of 2.x lists the first without its last letter
        "RandomHorizontalFli=RandomHorizontalFlip RandomHorizontalFlip RandomPerspective "
        "RandomResizedCrop RandomRotation RandomVerticalFlip Resize ToTensor Transpose",
        f"{_HOME}.colours": "BrightnessTransform ColorJitter ContrastTransform Grayscale HueTransform "
        "SaturationTransform",
    },
    "functional",
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
