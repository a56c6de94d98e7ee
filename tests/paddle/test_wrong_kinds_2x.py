"""Calls of 2.x's functions with one argument of a wrong kind, each held to what PaddlePaddle 2.6.2 raises."""

from __future__ import annotations

import functools
import gzip
import inspect
import json
import pathlib
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from golden.wrong_kinds_2x import KEPT, calls, raised

import fluidlite.paddle as paddle
from fluidlite.base.errors import ArgumentError

TESTS = pathlib.Path(__file__).parents[1]
RECORDED: dict[str, Any] = json.loads(
    gzip.decompress((TESTS / "golden" / "wrong_kinds_2x.json.gz").read_bytes())
)
CALLS = calls(RECORDED["rows"])
_HALVES = "0: dtype float16, 0: all of dtype float16"
# 2.6.2 refuses these, and they have a meaning here: integers as numbers, sums of halves, the shape of one
# number, one number of windows for both dimensions, and a shape that may be the wanted one, of unknown sizes
TAKEN = {
    "paddle.allclose": "2: int, 3: int",
    "paddle.einsum": "2: dtype float16, 2: dtype complex64, 2: dtype complex128",
    "paddle.incubate.segment_max": _HALVES,
    "paddle.incubate.segment_mean": _HALVES,
    "paddle.incubate.segment_min": _HALVES,
    "paddle.incubate.segment_sum": _HALVES,
    "paddle.isclose": "2: int, 3: int",
    "paddle.linalg.matrix_rank": "1: int",
    "paddle.nn.functional.adaptive_avg_pool2d": "1: Variable[int64]",
    "paddle.nn.functional.pairwise_distance": "3: int",
    "paddle.nn.functional.triplet_margin_loss": "2: Variable, 5: int",
    "paddle.normal": "2: None",
    "paddle.vision.ops.matrix_nms": "2: int, 3: int",
}
# errors of shapes
VALUE_ERRORS = {"paddle.einsum": "2: array", "paddle.static.nn.conv2d_transpose": "2: Variable"}


# calls that 2.6.2 builds and FluidLite refuses: most of them fail there when they run. Never more than these
REFUSED_HERE_ALONE = 166


@functools.cache
def outcomes(function: str) -> dict[str, tuple[str, str]]:
    """Case -> (the class that 2.6.2 raises, the classes of FluidLite's error); "" is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            case: (RECORDED["functions"][function][case], raised(paddle, code))
            for case, code in CALLS[function].items()
        }


def is_kept(function: str, case: str) -> bool:
    """True for a kind that FluidLite takes on purpose."""
    place, _, kind = case.partition(": ")
    names = [*inspect.signature(eval(function, {"paddle": paddle})).parameters, ""]
    name = names[min(int(place), len(names) - 1)] if place.isdigit() else place
    kept = KEPT.get(function, {}).get(name, "").split()
    return {"Variable[int64]": "int64"}.get(kind, kind.rpartition(" ")[2]) in kept


@pytest.mark.parametrize("function", sorted(CALLS))
def test_what_is_refused_in_paddle_is_refused_here(function: str) -> None:
    found = {
        case
        for case, (wanted, ours) in outcomes(function).items()
        if (wanted and not ours) or (wanted == "TypeError" and wanted not in ours)
    }
    listed = {each for rows in (TAKEN, VALUE_ERRORS) for each in rows.get(function, "").split(", ") if each}
    assert {case for case in found if not is_kept(function, case)} == listed


def test_what_paddle_builds_is_built_here() -> None:
    alone = [
        (function, case)
        for function in CALLS
        for case, (wanted, ours) in outcomes(function).items()
        if ours and not wanted
    ]
    assert len(alone) <= REFUSED_HERE_ALONE, alone


def test_the_list_is_what_paddle_refuses() -> None:
    script = "import refused_kinds; print(refused_kinds.written(), end='')"
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=TESTS / "house"
    )
    home = TESTS.parent / "fluidlite" / "ir" / "refused_kinds.txt"
    assert home.read_text(encoding="utf8") == said.stdout, "run: python tests/house/refused_kinds.py"


def test_an_error_says_what_is_taken() -> None:
    x = paddle.static.data("x", [2, 3], "int8")
    with pytest.raises(
        ArgumentError, match="data type of 'input' in trunc must be .*'float32'.* received int8"
    ) as found:
        paddle.trunc(x)
    assert isinstance(found.value, TypeError) and "test_wrong_kinds_2x.py" in str(found.value)
    with pytest.raises(TypeError, match="The type of 'axis' in sum must not be a number with a fraction"):
        paddle.sum(x, axis=1.5)
    with pytest.raises(
        TypeError, match="The type of 'shape' in zeros must not be Variable|data type of 'shape'"
    ):
        paddle.zeros(paddle.static.data("f", [2]))
    with pytest.raises(TypeError, match="data type of 'input' in trunc"):
        x.trunc()


# 2.6.2 raises an IndexError or a ValueError for each of them
ALONG: dict[str, Callable[[Any, int], Any]] = {
    "split": lambda x, axis: paddle.split(x, 3, axis=axis),
    "chunk": lambda x, axis: paddle.chunk(x, 3, axis),
    "gather": lambda x, axis: paddle.gather(x, paddle.to_tensor([0]), axis=axis),
    "diff": lambda x, axis: paddle.diff(x, axis=axis),
    "log_softmax": lambda x, axis: paddle.nn.functional.log_softmax(x, axis=axis),
    "index_add": lambda x, axis: paddle.index_add(x, paddle.to_tensor([0, 1]), axis, x),
    "flatten from": lambda x, axis: paddle.flatten(x, axis),
    "flatten to": lambda x, axis: paddle.flatten(x, 0, axis),
    "unique": lambda x, axis: paddle.unique(x, axis=axis),
    "trapezoid": lambda x, axis: paddle.trapezoid(x, axis=axis),
    "cumulative_trapezoid": lambda x, axis: paddle.cumulative_trapezoid(x, axis=axis),
    "roll": lambda x, axis: paddle.roll(x, 1, axis),
    "tensordot": lambda x, axis: paddle.tensordot(x, x, [[axis], [axis]]),
}


@pytest.mark.parametrize("axis", [2, 3, -3])
@pytest.mark.parametrize("name", ALONG)
def test_a_dimension_that_is_not_there(name: str, axis: int) -> None:
    x = paddle.static.data("x", [2, 3])
    with pytest.raises(IndexError, match=f"axis {axis} is outside of the 2 dimensions of 'x'") as found:
        ALONG[name](x, axis)
    assert isinstance(found.value, ValueError)


# a call with x of [2, 3] and w of int32 -> what its error says
SAID: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "two dtypes": (
        lambda x, w: paddle.bitwise_and(w, paddle.cast(w, "int64")),
        "'x' and 'y' in bitwise_and must have one data type, but x is int32 and y is int64",
    ),
    "a weight": (
        lambda x, w: paddle.nn.functional.binary_cross_entropy(x, x, paddle.cast(x, "float64")),
        "'input' and 'weight' in binary_cross_entropy must have one data type",
    ),
    "a matrix of repeats": (lambda x, w: paddle.tile(x, w), "'repeat_times' in tile must have one dimension"),
    "many shifts": (lambda x, w: paddle.roll(x, w, 0), "'shifts' in roll must have 1 elements, but w has"),
    "a matrix of sizes": (
        lambda x, w: paddle.nn.functional.interpolate(paddle.reshape(x, [1, 1, 2, 3]), w),
        "'size' in interpolate must have one dimension, but w has the shape",
    ),
    "another diagonal": (
        lambda x, w: paddle.diagonal_scatter(x, x),
        r"'y' in diagonal_scatter must have the shape \[2\] of the diagonals of x",
    ),
    "a narrow dtype": (
        lambda x, w: paddle.linspace(paddle.zeros([], "float64"), 2, 3),
        "'start' in linspace has the data type float64, which float32 does not hold",
    ),
    "a layout": (
        lambda x, w: paddle.nn.functional.pad(paddle.reshape(x, [1, 2, 3]), [1, 1], data_format="NHWC"),
        "data_format.* should be one of NCL, NLC",
    ),
    "groups": (
        lambda x, w: paddle.static.nn.group_norm(paddle.reshape(x, [1, 3, 2, 1]), 2),
        "groups must divide the 3 channels of input, but is 2",
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_an_error_names_function_argument_and_value(name: str) -> None:
    call, said = SAID[name]
    x, w = paddle.static.data("x", [2, 3]), paddle.static.data("w", [2, 3], "int32")
    with pytest.raises(ValueError, match=said) as found:
        call(x, w)
    assert "test_wrong_kinds_2x.py" in str(found.value)


def test_layouts_in_small_letters() -> None:
    functional = paddle.nn.functional
    image = paddle.static.data("image", [1, 2, 3, 4])
    calls = [(functional.pad, [1, 1, 2, 2], {}), (functional.interpolate, [4, 6], {"mode": "bilinear"})]
    for function, size, named in calls:
        small, large = (function(image, size, data_format=layout, **named) for layout in ("nhwc", "NHWC"))
        assert small.shape == large.shape and small.shape[-1] == 4
