"""Branches and loops."""

from __future__ import annotations

from typing import Any

from beside.draw import Draw, draws


@draws("fluid.layers.cond", "paddle.static.nn.cond")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 3))
    root = "fluid.layers" if draw.door == "18" else "paddle"
    condition = draw.feed(draw.numbers((1,), "bool"), known=True)
    branches = [
        draw.block([], lambda: draw.call(f"{root}.scale", x, scale=2.0)),
        draw.block([], lambda: draw.call(f"{root}.tanh", x)),
    ]
    return draw.call(name, condition, *branches)
