"""Operands of two data types in the 2.x door: every pair, by NumPy and beside what 2.6.2 makes of it."""

from __future__ import annotations

import gzip
import json
import operator
import pathlib
import warnings
from typing import Any

import numpy as np
import pytest
from golden import promotion_2x as cases

import fluidlite.paddle as paddle
from fluidlite.base.dtypes import to_numpy, to_vartype
from fluidlite.base.errors import EnforceNotMet
from fluidlite.paddle.promotion import common_dtype

RECORDED = dict(
    zip(
        map(repr, cases.cases()),
        json.loads(gzip.decompress(pathlib.Path(cases.PATH).read_bytes())),
        strict=True,
    )
)
SHORT = dict(zip(["b", "u8", "i8", "i16", "i32", "i64", "f16", "f32", "f64"], cases.DTYPES, strict=True))
COMMON = """
  b:   b  u8  i8 i16 i32 i64 f16 f32 f64
 u8:  u8  u8 i16 i16 i32 i64 f16 f32 f64
 i8:  i8 i16  i8 i16 i32 i64 f16 f32 f64
i16: i16 i16 i16 i16 i32 i64 f16 f32 f64
i32: i32 i32 i32 i32 i32 i64 f16 f32 f64
i64: i64 i64 i64 i64 i64 i64 f16 f32 f64
f16: f16 f16 f16 f16 f16 f16 f16 f32 f64
f32: f32 f32 f32 f32 f32 f32 f32 f32 f64
f64: f64 f64 f64 f64 f64 f64 f64 f64 f64
"""
NUMPY: dict[str, Any] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "pow": operator.pow,
    **{name: getattr(np, name) for name in ("maximum", "minimum", "fmax", "fmin", "matmul")},
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less_than": operator.lt,
    "less_equal": operator.le,
    "greater_than": operator.gt,
    "greater_equal": operator.ge,
    **cases.OPERATORS,
    **{f"r{name}": (lambda x, y, of=cases.OPERATORS[name]: of(y, x)) for name in cases.SWAPPED},
}


def table() -> dict[tuple[str, str], str]:
    found = {}
    for line in COMMON.strip().splitlines():
        left, _, row = line.partition(":")
        found.update(
            {(SHORT[left.strip()], y): SHORT[one] for y, one in zip(cases.DTYPES, row.split(), strict=True)}
        )
    return found


TABLE = table()


def common(name: str, x: str, y: Any) -> str:
    """The dtype that a case is computed in."""
    if name in ("/", "r/"):  # whole numbers are divided as float32
        x, y = (one if not isinstance(one, str) or "float" in one else "float32" for one in (x, y))
    if isinstance(y, str):
        return TABLE[x, y]
    if "float" in x or isinstance(y, bool):
        return "int64" if (x, name.strip("r")) == ("bool", "-") else x
    if isinstance(y, float):
        return "float32"
    return "int64" if x == "bool" or (x == "uint8" and y < 0) else x


def expected(name: str, x: str, y: Any) -> Any:
    """The values by NumPy; None where it refuses, or makes numbers of truth values."""
    kind = np.dtype(common(name, x, y))
    sides = [cases.operand(one, i) if isinstance(one, str) else np.array(one) for i, one in enumerate((x, y))]
    left, right = (side.astype(kind) for side in sides)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if kind.kind in "iu" and name == "divide":  # as C does it
                return left // right
            if kind.kind in "iu" and name in ("pow", "**", "r**"):  # whole powers of whole numbers
                return NUMPY[name](left.astype("float64"), right).astype(kind)
            found = NUMPY[name](left, right)
        except TypeError:
            return None
    if kind.kind == "b" and found.dtype != kind:
        return None
    return found


def test_table() -> None:
    for (x, y), wanted in TABLE.items():
        assert to_numpy(common_dtype(to_vartype(x), to_vartype(y))) == wanted, (x, y)


def is_refused(case: tuple[str, str, Any]) -> bool:
    """True where there is no such operation on truth values, or one of the divisors is 0."""
    divides = case[0] in ("//", "%", "floor_divide", "remainder", "divide") and case[2] == "bool"
    return expected(*case) is None or (divides and "float" not in case[1])


@pytest.mark.parametrize("name", sorted({case[0] for case in cases.cases()}))
def test_operands_of_two_types(name: str) -> None:
    """Dtypes and values are right, and 2.6.2's where it computes in a type that holds both sides."""
    done = [case for case in cases.cases() if case[0] == name and not is_refused(case)]
    feeds: dict[str, Any] = {}
    results = [cases.build(paddle, case, feeds) for case in done]
    given = {key: array for key, (array, _) in feeds.items()}
    values = paddle.static.Executor().run(feed=given, fetch_list=results)
    for case, result, found in zip(done, results, values, strict=True):
        wanted, recorded = expected(*case), RECORDED[repr(case)]
        assert to_numpy(result.dtype) == found.dtype == wanted.dtype, (case, found.dtype)
        rtol = 1e-3 if found.dtype == "float16" else 1e-6
        np.testing.assert_allclose(found, wanted, rtol=rtol, err_msg=str(case))
        if recorded is not None and recorded[0] == found.dtype and computes_in_common(case):
            theirs = [float(one) for one in recorded[1]]
            np.testing.assert_allclose(np.ravel(found), theirs, rtol=2e-3, err_msg=str(case))


@pytest.mark.parametrize("case", [case for case in cases.cases() if is_refused(case)], ids=str)
def test_refused_operands(case: tuple[str, str, Any]) -> None:
    feeds: dict[str, Any] = {}
    with pytest.raises((EnforceNotMet, TypeError)):
        result = cases.build(paddle, case, feeds)
        paddle.static.Executor().run(
            feed={key: array for key, (array, _) in feeds.items()}, fetch_list=[result]
        )
    assert RECORDED[repr(case)] is None


def computes_in_common(case: tuple[str, str, Any]) -> bool:
    """True unless 2.6.2 casts the right side to the type of the left one, which does not hold it."""
    name, x, y = case
    if isinstance(y, str):
        return TABLE[x, y] == x
    return isinstance(y, float) or common(name, x, y) == x
