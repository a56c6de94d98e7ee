"""`fluid.layers.nn`: the layers of neural networks, gathered from the files that hold them by subject."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.base.imported_names import imported_names
from fluidlite.ir.guarded import guarded
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

__all__ = ["logical_and", "logical_not", "logical_or", "logical_xor", "py_func"]
__all__ += activations.__all__
__all__ += click_through.__all__
__all__ += conv.__all__
__all__ += criteria.__all__
__all__ += elementwise.__all__
__all__ += indexing.__all__
__all__ += lod.__all__
__all__ += norm.__all__
__all__ += products.__all__
__all__ += random.__all__
__all__ += reduce.__all__
__all__ += regions.__all__
__all__ += resize.__all__
__all__ += search.__all__
__all__ += shaping.__all__
__all__ += tagging.__all__
__all__ += vision.__all__

if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
