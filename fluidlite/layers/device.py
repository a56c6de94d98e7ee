"""`fluid.layers.device`: the places that a program may use. Outdated in fluid 1.8, and no part of
`fluid.layers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite import unique_name
from fluidlite.base.imported_names import imported_names
from fluidlite.ir.guarded import guarded
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper

__all__: list[str] = []


def get_places(device_count: int | None = None, device_type: str | None = None) -> Variable:
    """The list of places, at run time: `device_count` of them (0: all), of type "AUTO", "CPU" or "CUDA"."""
    if device_type not in (None, "AUTO", "CPU", "CUDA"):
        raise ValueError(f"device_type must be 'AUTO', 'CPU' or 'CUDA', not {device_type!r}")
    helper = LayerHelper("get_places")
    out = helper.create_variable(name=unique_name.generate_with_ignorable_key(helper.name + ".out"))
    attrs = {"device_count": device_count, "device_type": device_type}
    helper.append_op(
        type="get_places",
        outputs={"Out": [out]},
        attrs={name: value for name, value in attrs.items() if value is not None},
    )
    return out


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
