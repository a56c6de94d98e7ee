"""Calls of 2.x's functions with one argument of a wrong kind, each held to what PaddlePaddle 2.6.2 raises."""

from __future__ import annotations

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
# 2.6.2 raises a TypeError for these, and they have a meaning here: integers as numbers, sums of halves, the
# shape of one number
TAKEN = {
    "paddle.allclose": "2: int, 3: int",
    "paddle.einsum": "2: dtype float16, 2: dtype complex64, 2: dtype complex128",
    "paddle.incubate.segment_max": _HALVES,
    "paddle.incubate.segment_mean": _HALVES,
    "paddle.incubate.segment_min": _HALVES,
    "paddle.incubate.segment_sum": _HALVES,
    "paddle.isclose": "2: int, 3: int",
    "paddle.linalg.matrix_rank": "1: int",
    "paddle.nn.functional.pairwise_distance": "3: int",
    "paddle.nn.functional.triplet_margin_loss": "5: int",
    "paddle.normal": "2: None",
    "paddle.vision.ops.matrix_nms": "2: int, 3: int",
}
# errors of shapes
VALUE_ERRORS = {"paddle.einsum": "2: array", "paddle.static.nn.conv2d_transpose": "2: Variable"}


def outcomes(function: str) -> dict[str, tuple[str, str]]:
    """Case -> (the class that 2.6.2 raises, the classes of FluidLite's error); "" is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            case: (RECORDED["functions"][function][case], raised(paddle, code))
            for case, code in CALLS[function].items()
        }


def is_kept(function: str, case: str) -> bool:
    """True for a kind that FluidLite takes on purpose, and for one of two operands with another dtype."""
    place, _, kind = case.partition(": ")
    together = RECORDED["functions"][function].get(f"{place}: all of {kind}", "TypeError")
    names = [*inspect.signature(eval(function, {"paddle": paddle})).parameters, ""]
    name = names[min(int(place), len(names) - 1)] if place.isdigit() else place
    kept = KEPT.get(function, {}).get(name, "").split()
    return {"Variable[int64]": "int64"}.get(kind, kind.rpartition(" ")[2]) in kept or together != "TypeError"


@pytest.mark.parametrize("function", sorted(CALLS))
def test_what_is_a_type_error_in_paddle_is_one_here(function: str) -> None:
    found = {
        case
        for case, (wanted, ours) in outcomes(function).items()
        if wanted == "TypeError" and wanted not in ours
    }
    listed = {each for rows in (TAKEN, VALUE_ERRORS) for each in rows.get(function, "").split(", ") if each}
    assert {case for case in found if not is_kept(function, case)} == listed


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
