"""Borders around images, and parts cut off."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from fluidlite.ir.variable import Variable
from fluidlite.layers.neural.conv import numbers
from fluidlite.paddle.build import append
from fluidlite.paddle.nn.functional.windows import LAYOUTS, is_last
from fluidlite.paddle.tensor.creation import assign
from fluidlite.paddle.tensor.manipulation import concat, squeeze, unsqueeze

__all__ = ["pad", "zeropad2d"]


def pad(
    x: Variable,
    pad: Any,
    mode: str = "constant",
    value: float = 0.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """x with borders.

    pad: a number for all spatial sides, two numbers for each spatial dimension from the last to the first, or
        (for "constant") two for every dimension from the first to the last; or a Variable with the former.
    mode: "constant" (`value`), "reflect", "replicate" or "circular".
    """
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise ValueError(f"mode should be one of constant, reflect, replicate, circular, but got {mode}.")
    layout = data_format.upper()
    if not any(layout in known for known in LAYOUTS.values()):
        raise ValueError(f"'data_format' in pad must be one of {[*LAYOUTS.values()]}, but is {data_format!r}")
    dims = len(x.shape)
    if isinstance(pad, (list, tuple)) and mode == "constant" and len(pad) == 2 * dims:
        attrs = {"paddings": list(pad), "pad_value": float(value)}
        return append("pad", {"X": [x]}, attrs, dtype=x.dtype, name=name)
    if dims - 2 not in LAYOUTS:
        raise ValueError(f"x should have 3, 4 or 5 dimensions, but has {dims}")
    last = is_last(layout, dims - 2)
    layout = LAYOUTS[3][1 if last else 0]
    # dimensions of size one: 2.6.2 has lines in front of them, and pictures behind
    missing = {3: [2, 3] if last else [3, 4], 4: [1] if last else [2], 5: []}[dims]
    volume = unsqueeze(x, missing) if missing else x
    inputs = {"X": [volume]}
    attrs = {"mode": mode, "value": float(value), "data_format": layout}
    if isinstance(pad, Variable):
        none = assign(np.array([0] * (2 * (5 - dims)), "int32")) if missing else pad
        parts = {3: [none, pad], 4: [pad, none], 5: [pad]}[dims]
        inputs["Paddings"] = [concat(parts) if missing else pad]
    else:
        sides = [pad] * (2 * (dims - 2)) if isinstance(pad, Integral) else numbers(pad, 2 * (dims - 2), "pad")
        attrs["paddings"] = [0, 0, 0, 0, *sides] if dims == 3 else sides + [0] * (6 - len(sides))
    out = append("pad3d", inputs, attrs, dtype=x.dtype, name=name)
    return squeeze(out, missing) if missing else out


def zeropad2d(x: Variable, padding: Any, data_format: str = "NCHW", name: str | None = None) -> Variable:
    """Images within zeros: as many on the left, the right, above and below as `padding` says."""
    return pad(x, pad=padding, mode="constant", value=0, data_format=data_format, name=name)
