"""`fluid.layers.nn`: the layers of neural networks, gathered from the files that hold them by subject."""
from __future__ import annotations

from fluidlite.layers import (
    activations,
    conv,
    criteria,
    elementwise,
    indexing,
    lod,
    norm,
    random,
    reduce,
    resize,
    search,
    shaping,
    tagging,
    vision,
)
from fluidlite.layers import fc as products  # the star below brings a function of the file's name
from fluidlite.layers.activations import *  # noqa: F403
from fluidlite.layers.compare import logical_and, logical_not, logical_or, logical_xor
from fluidlite.layers.conv import *  # noqa: F403
from fluidlite.layers.criteria import *  # noqa: F403
from fluidlite.layers.debug import py_func
from fluidlite.layers.elementwise import *  # noqa: F403
from fluidlite.layers.fc import *  # noqa: F403
from fluidlite.layers.indexing import *  # noqa: F403
from fluidlite.layers.lod import *  # noqa: F403
from fluidlite.layers.norm import *  # noqa: F403
from fluidlite.layers.random import *  # noqa: F403
from fluidlite.layers.reduce import *  # noqa: F403
from fluidlite.layers.resize import *  # noqa: F403
from fluidlite.layers.search import *  # noqa: F403
from fluidlite.layers.shaping import *  # noqa: F403
from fluidlite.layers.tagging import *  # noqa: F403
from fluidlite.layers.vision import *  # noqa: F403

_FILES = (activations, conv, criteria, elementwise, indexing, lod, norm, products, random, reduce, resize, search, shaping, tagging, vision)
__all__ = [name for module in _FILES for name in module.__all__]
__all__ += ["logical_and", "logical_not", "logical_or", "logical_xor", "py_func"]
