"""Arithmetic of two operands, equal in shape and broadcast; comparisons; what goes over one operand."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_rows.made import Row, below, layers, sized, uniform

SIZES = (4, 6), (128, 256), (1024, 1024)


def pair(name: str, axis: int | None = None) -> Any:
    """Of two equal shapes, or of rows with a vector along the axis."""

    def row(rows: int, columns: int) -> Row:
        y = uniform(rows, columns) if axis is None else uniform((rows, columns)[axis])
        place = -1 if axis is None else axis
        return layers(
            lambda fluid, x, y: getattr(fluid.layers, name)(x, y, axis=place), x=uniform(rows, columns), y=y
        )

    return row


def whole(name: str) -> Any:
    def row(rows: int, columns: int) -> Row:
        numbers = {"x": below(100, rows, columns) + 1, "y": below(100, rows, columns) + 1}
        return layers(lambda fluid, x, y: getattr(fluid.layers, name)(x, y), grad=False, **numbers)

    return row


def logical(name: str) -> Any:
    def row(rows: int, columns: int) -> Row:
        numbers = {"x": uniform(rows, columns) > 0.5, "y": uniform(rows, columns) > 0.5}
        return layers(lambda fluid, x, y: getattr(fluid.layers, name)(x, y), grad=False, **numbers)

    return row


def one(build: Any, grad: bool = True) -> Any:
    return lambda rows, columns: layers(build, grad=grad, x=uniform(rows, columns) - 0.5)


ROWS = {"elementwise_" + name: sized(pair("elementwise_" + name), *SIZES) for name in
        ["add", "sub", "mul", "div", "max", "min", "pow"]}  # fmt: skip
for name in ("add", "mul", "div"):
    ROWS["elementwise_" + name + " row"] = sized(pair("elementwise_" + name, 1), *SIZES)
    ROWS["elementwise_" + name + " column"] = sized(pair("elementwise_" + name, 0), *SIZES)
for name in ("elementwise_mod", "elementwise_floordiv", "less_than", "equal", "not_equal", "greater_equal"):
    ROWS[name + " int64"] = sized(whole(name), *SIZES)
for name in ("logical_and", "logical_xor"):
    ROWS[name] = sized(logical(name), *SIZES)
ROWS.update(
    {
        "scale": sized(one(lambda fluid, x: fluid.layers.scale(x, 2.0, 1.0)), *SIZES),
        "clip": sized(one(lambda fluid, x: fluid.layers.clip(x, -0.2, 0.2)), *SIZES),
        "clip_by_norm": sized(one(lambda fluid, x: fluid.layers.clip_by_norm(x, 1.0)), *SIZES),
        "cast to float64": sized(one(lambda fluid, x: fluid.layers.cast(x, "float64")), *SIZES),
        "cast to int64": sized(one(lambda fluid, x: fluid.layers.cast(x, "int64"), False), *SIZES),
        "isfinite": sized(one(lambda fluid, x: fluid.layers.isfinite(x), False), *SIZES),
        "cumsum": sized(one(lambda fluid, x: fluid.layers.cumsum(x, axis=1)), *SIZES),
        "cumsum of columns": sized(one(lambda fluid, x: fluid.layers.cumsum(x, axis=0)), *SIZES),
        "increment": sized(
            one(lambda fluid, x: fluid.layers.increment(x, in_place=False), False), *[(1, 1)] * 3
        ),
        "sum of 4": sized(
            lambda rows, columns: layers(
                lambda fluid, a, b, c, d: fluid.layers.sum([a, b, c, d]),
                **{name: uniform(rows, columns) for name in "abcd"},
            ),
            *SIZES,
        ),
        "kron": sized(
            lambda rows, columns: layers(
                lambda fluid, x, y: fluid.layers.kron(x, y), x=uniform(rows, columns), y=uniform(4, 4)
            ),
            (2, 3),
            (32, 32),
            (256, 128),
        ),
        "addcmul": sized(
            lambda rows, columns: layers(
                lambda fluid, x, y, z: fluid.layers.addcmul(x, y, z, 0.5),
                **{name: uniform(rows, columns) for name in "xyz"},
            ),
            *SIZES,
        ),
        "dist": sized(
            lambda rows, columns: layers(
                lambda fluid, x, y: fluid.layers.dist(x, y, 3),
                **{name: uniform(rows, columns) for name in "xy"},
            ),
            *SIZES,
        ),
        "allclose": sized(
            lambda rows, columns: layers(
                lambda fluid, x, y: fluid.layers.allclose(x, y),
                grad=False,
                **dict.fromkeys("xy", np.ones((rows, columns), "float32")),
            ),
            *SIZES,
        ),
    }
)
