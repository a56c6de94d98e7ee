"""Functions of compiled loops against float64: their errors, and what they make of special numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

from fluidlite.base.errors import ShapeError
from fluidlite.executor.fast.loops.arithmetic import can_hold
from fluidlite.executor.fast.loops.compiled import CompiledLoops, NestSizes
from fluidlite.executor.fast.loops.compiler import RunCount, loop_of, widths
from fluidlite.executor.fast.loops.nest import Nest, operands_of
from fluidlite.executor.plan.actions import Elementwise
from fluidlite.executor.plan.values import Storage, ValueFactory
from fluidlite.ops.kernels.scalar import FUNCTIONS, PREDICATES

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1e-38, -1.0, 1.0, 88.8, -88.8, -104.0, 3e38]


def compiled(function: str, operands: list[Any], dtype: Any, shape: tuple[int, ...]) -> Any:
    """An element-wise function by a compiled loop; numbers are part of its text."""
    make = ValueFactory().make
    out = make(shape, dtype, Storage.BUFFER)
    values = [
        make(item.shape, item.dtype, Storage.BUFFER) if isinstance(item, np.ndarray) else item
        for item in operands
    ]
    action = Elementwise(function, tuple(values))
    assert can_hold(action, out)
    arrays = [item for item in operands if isinstance(item, np.ndarray)]
    held = [item for item in values if not isinstance(item, (int, float))]
    found, sizes = operands_of([*held, out], shape)
    loop = loop_of(Nest([(action, out)], [out], [], found, len(sizes)).text("LOOP", widths()))
    loop.compile()
    result = np.full(shape, 7, dtype)
    part = NestSizes(sizes, len(found), 0)
    dtypes = [*(item.dtype for item in arrays), result.dtype]
    CompiledLoops(np, loop, [part], dtypes, (), 1, RunCount())(*arrays, result)
    return result


@pytest.mark.parametrize(
    ("function", "exact", "bounds", "most"),
    [
        ("exp", np.exp, (-104.0, 89.0), 1.0),
        ("exp", np.exp, (-1.0, 1.0), 1.0),
        ("log", np.log, (0.0, 3.0), 1.0),
        ("log", np.log, (1e-45, 1e-37), 1.0),
        ("log", np.log, (1.0, 3e38), 1.0),
        ("log1p", np.log1p, (-0.999, 3.0), 3.0),
        ("log1p", np.log1p, (-1e-3, 1e-3), 3.0),
        ("tanh", np.tanh, (-10.0, 10.0), 6.0),
        ("tanh", np.tanh, (-1e-3, 1e-3), 6.0),
        ("erf", special.erf, (-5.0, 5.0), 6.0),
        ("erf", special.erf, (-1e-3, 1e-3), 6.0),
    ],
)
def test_errors_are_as_stated(
    function: str, exact: Callable[[Any], Any], bounds: tuple[float, float], most: float
) -> None:
    x = np.linspace(*bounds, 200_001).astype("float32")
    found = compiled(function, [x], np.float32, x.shape)
    with np.errstate(over="ignore", divide="ignore"):
        wanted = exact(x.astype("float64"))
        rounded = wanted.astype("float32")
    finite = np.isfinite(rounded)
    ulps = np.abs(found[finite] - wanted[finite]) / np.spacing(np.abs(rounded[finite])).astype("float64")
    assert ulps.max() <= most
    np.testing.assert_array_equal(found[~finite], rounded[~finite])


_UNARY = (
    "exp",
    "log",
    "log1p",
    "tanh",
    "sqrt",
    "square",
    "abs",
    "floor",
    "ceil",
    "rint",
    "neg",
    "sign",
    "isnan",
)
_BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "gt", "ge", "lt", "le", "eq", "ne")


@pytest.mark.parametrize("function", _UNARY)
def test_special_numbers_of_one_operand(function: str) -> None:
    x = np.array(SPECIAL * 7, np.float32)
    dtype = bool if function in PREDICATES else np.float32
    with np.errstate(all="ignore"):
        wanted = getattr(np, FUNCTIONS[function][0])(x)
    np.testing.assert_allclose(compiled(function, [x], dtype, x.shape), wanted, rtol=1e-6)


@pytest.mark.parametrize("function", _BINARY)
@pytest.mark.parametrize("kind", ["float32", "float64", "int32", "int64"])
def test_special_numbers_of_two_operands(function: str, kind: str) -> None:
    numbers = (
        np.array(SPECIAL, kind) if kind[0] == "f" else np.array([0, 1, -1, 7, -(2**31), 2**31 - 1], kind)
    )
    x, y = (grid.ravel() for grid in np.meshgrid(numbers, numbers))
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    if function == "div" and kind[0] == "i":
        x, y = x.astype("float64"), y.astype("float64")
    dtype = bool if function in PREDICATES else x.dtype
    with np.errstate(all="ignore"):
        wanted = getattr(np, FUNCTIONS[function][0])(x, y)
    np.testing.assert_array_equal(compiled(function, [x, y], dtype, x.shape), wanted)


def test_numbers_as_limits() -> None:
    x = np.array(SPECIAL, np.float32)
    for function in ("maximum", "minimum"):
        wanted = getattr(np, function)(x, np.float32(1.0))
        np.testing.assert_array_equal(compiled(function, [x, 1.0], np.float32, x.shape), wanted)


@pytest.mark.parametrize(
    "shapes",
    [
        ((3, 5), (5,)),
        ((3, 5), (3, 1)),
        ((3, 130), (1, 130)),
        ((2, 3, 4, 5), (1, 3, 1, 1)),
        ((2, 3, 4, 5), (2, 1, 4, 1)),
        ((2, 70, 3), (1, 1, 1)),
        ((4, 1, 67), (67,)),
        ((257,), ()),
        ((100_003,), (1,)),
    ],
)
def test_broadcast_operands(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    random = np.random.RandomState(0)
    x, y = (np.asarray(random.randn(*shape), np.float32) for shape in shapes)
    np.testing.assert_array_equal(compiled("sub", [x, y], np.float32, x.shape), x - y)
    np.testing.assert_array_equal(compiled("sub", [y, x], np.float32, x.shape), y - x)


def test_truth_values() -> None:
    x = np.random.RandomState(0).rand(3, 67) > 0.5
    y = np.random.RandomState(1).randn(3, 67).astype("float32")
    np.testing.assert_array_equal(compiled("invert", [x], bool, x.shape), ~x)
    np.testing.assert_array_equal(compiled("mul", [y, x], np.float32, x.shape), y * x)
    np.testing.assert_array_equal(compiled("where", [x, y, 0.5], np.float32, x.shape), np.where(x, y, 0.5))
    np.testing.assert_array_equal(compiled("copy", [x], np.int64, x.shape), x.astype("int64"))


def test_arrays_of_kernels_may_lie_otherwise() -> None:
    factory = ValueFactory()
    x, out = (factory.make((6, 4), "float32", Storage.BUFFER) for _ in range(2))
    operands, sizes = operands_of([x, out], (6, 4))
    nest = Nest([(Elementwise("square", (x,)), out)], [out], [], operands, len(sizes))
    loop = loop_of(nest.text("LOOP", widths()))
    loop.compile()
    dtypes = (np.dtype("float32"),) * 2
    loops = CompiledLoops(np, loop, [NestSizes(sizes, 2, 0)], dtypes, (), 1, RunCount(), [(0, 24)])
    result = np.empty((6, 4), "float32")
    given = np.arange(24, dtype="float32").reshape(4, 6)
    for array in (given.T, given.reshape(6, 4), given.reshape(6, 4).astype("float64")):
        loops(array, result)
        np.testing.assert_array_equal(result, array**2)
    with pytest.raises(ShapeError, match="24 elements"):
        loops(given[:3], result)
