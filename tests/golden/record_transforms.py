"""Record `paddle.vision.transforms` of PaddlePaddle 2.6.2 (with Pillow and opencv-python-headless beside it).

cd tests && python -m golden.record_transforms
"""

from __future__ import annotations

import os

import numpy as np
import paddle.vision.transforms as T
from PIL import Image

from .transform_cases import results

if __name__ == "__main__":
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "transforms.npz")
    np.savez_compressed(path, **results(T, Image))
