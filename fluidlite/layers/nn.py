"""`fluid.layers.nn`: the layers of neural networks, gathered from the files that hold them by subject."""
from __future__ import annotations

from fluidlite.layers import conv, elementwise, indexing, norm, reduce, shaping, vision
from fluidlite.layers import fc as products  # the star below brings a function of the file's name
from fluidlite.layers.conv import *  # noqa: F403
from fluidlite.layers.elementwise import *  # noqa: F403
from fluidlite.layers.fc import *  # noqa: F403
from fluidlite.layers.indexing import *  # noqa: F403
from fluidlite.layers.norm import *  # noqa: F403
from fluidlite.layers.reduce import *  # noqa: F403
from fluidlite.layers.shaping import *  # noqa: F403
from fluidlite.layers.vision import *  # noqa: F403

__all__ = [name for module in (conv, elementwise, indexing, norm, products, reduce, shaping, vision) for name in module.__all__]
