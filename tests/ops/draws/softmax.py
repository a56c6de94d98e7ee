"""Softmax and its kin."""

from __future__ import annotations

from typing import Any

from beside.draw import OMIT, Draw, draws


@draws("fluid.layers.softmax", "paddle.nn.functional.softmax")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 5))
    cudnn = draw.maybe(draw.flag(), 0.2) if draw.door == "18" else OMIT
    return draw.call(name, x, axis=draw.maybe(draw.axis(x)), use_cudnn=cudnn)


@draws("paddle.nn.functional.log_softmax", "fluid.layers.log_softmax")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 5))
    return draw.call(name, x, axis=draw.maybe(draw.axis(x)), dtype=draw.choice(OMIT, OMIT, "float64"))
