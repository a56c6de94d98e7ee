"""`fluid.layers.nn`: the layers of neural networks, gathered from the files that hold them by subject."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.base.imported_names import imported_names
from fluidlite.layers.arithmetic import (
    activations,
    elementwise,
    products,  # the star below brings a function of the file's name
    reduce,
)
from fluidlite.layers.arithmetic.activations import *  # noqa: F403
from fluidlite.layers.arithmetic.compare import logical_and, logical_not, logical_or, logical_xor
from fluidlite.layers.arithmetic.elementwise import *  # noqa: F403
from fluidlite.layers.arithmetic.products import *  # noqa: F403
from fluidlite.layers.arithmetic.reduce import *  # noqa: F403
from fluidlite.layers.boxes import regions
from fluidlite.layers.boxes.regions import *  # noqa: F403
from fluidlite.layers.flow.debug import py_func
from fluidlite.layers.neural import click_through, conv, criteria, norm, resize, tagging, vision
from fluidlite.layers.neural.click_through import *  # noqa: F403
from fluidlite.layers.neural.conv import *  # noqa: F403
from fluidlite.layers.neural.criteria import *  # noqa: F403
from fluidlite.layers.neural.norm import *  # noqa: F403
from fluidlite.layers.neural.resize import *  # noqa: F403
from fluidlite.layers.neural.tagging import *  # noqa: F403
from fluidlite.layers.neural.vision import *  # noqa: F403
from fluidlite.layers.tensors import indexing, lod, random, search, shaping
from fluidlite.layers.tensors.indexing import *  # noqa: F403
from fluidlite.layers.tensors.lod import *  # noqa: F403
from fluidlite.layers.tensors.random import *  # noqa: F403
from fluidlite.layers.tensors.search import *  # noqa: F403
from fluidlite.layers.tensors.shaping import *  # noqa: F403

_FILES = (
    activations,
    click_through,
    conv,
    criteria,
    elementwise,
    indexing,
    lod,
    norm,
    products,
    random,
    reduce,
    regions,
    resize,
    search,
    shaping,
    tagging,
    vision,
)
__all__ = [name for module in _FILES for name in module.__all__]
__all__ += ["logical_and", "logical_not", "logical_or", "logical_xor", "py_func"]

if not TYPE_CHECKING:
    __getattr__ = imported_names(__name__)
