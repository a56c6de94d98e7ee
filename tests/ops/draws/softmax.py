"""Softmax and its kin."""

from __future__ import annotations

from typing import Any

from beside.draw import Draw, draws


@draws("fluid.layers.softmax", "paddle.nn.functional.softmax")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 5))
    return draw.call(name, x, axis=draw.maybe(draw.axis(x)))


@draws("paddle.nn.functional.log_softmax", "fluid.layers.log_softmax")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 5))
    return draw.call(name, x, axis=draw.maybe(draw.axis(x)))
