"""Operators of 2.x on operands of two data types: what PaddlePaddle 2.6.2 makes of every pair, recorded.

cd tests && python -m golden.promotion_2x        (with the Python that has 2.6.2)
"""

from __future__ import annotations

import gzip
import json
import operator
import os
from collections.abc import Callable
from typing import Any

import numpy as np

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "promotion_2x.json.gz")
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "@": operator.matmul,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
FUNCTIONS = [
    *("add", "subtract", "multiply", "divide", "maximum", "minimum", "pow", "floor_divide", "remainder"),
    *("fmax", "fmin", "equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal"),
    "matmul",
]
NUMBERS = (True, 2, -1, 0.5, 2.0, -1.5)
SWAPPED = ("+", "-", "*", "/", "**")  # which a number may stand in front of


def operand(dtype: str, side: int) -> np.ndarray[Any, Any]:
    """Three numbers, with halves where the type has them."""
    if dtype == "bool":
        return np.array([[True, False, True], [True, True, False]][side])
    numbers = np.array([[3, 1, 2], [2, 1, 3]][side], dtype)
    return numbers + numbers.dtype.type([0.5, 0.25][side]) if "float" in dtype else numbers


def cases() -> list[tuple[str, str, Any]]:
    """(operator or function, dtype on the left, dtype or number on the right); numbers in front of `SWAPPED`
    have the name of the operator behind an r.
    """
    found: list[tuple[str, str, Any]] = []
    for name in (*OPERATORS, *FUNCTIONS):
        found += [(name, x, y) for x in DTYPES for y in DTYPES]
    for name in OPERATORS:
        if name != "@":
            found += [(name, x, number) for x in DTYPES for number in NUMBERS]
    for name in SWAPPED:
        found += [(f"r{name}", x, number) for x in DTYPES for number in NUMBERS]
    return found


def build(paddle: Any, case: tuple[str, str, Any], feeds: dict[str, Any]) -> Any:
    """The result of a case in the program that is being written; `feeds` gets the operands."""
    name, x, y = case
    sides = []
    for side, one in enumerate((x, y)):
        key = f"{one}_{side}"
        if isinstance(one, str) and key not in feeds:
            feeds[key] = operand(one, side), paddle.static.data(key, [3], one)
        sides.append(feeds[key][1] if isinstance(one, str) else one)
    if name in FUNCTIONS:
        return getattr(paddle, name)(*sides)
    if name[0] == "r":
        return OPERATORS[name[1:]](sides[1], sides[0])
    return OPERATORS[name](*sides)


def record() -> None:
    import paddle

    paddle.enable_static()
    found = []
    for case in cases():
        main = paddle.static.Program()
        feeds: dict[str, Any] = {}
        try:
            with paddle.static.program_guard(main, paddle.static.Program()):
                result = build(paddle, case, feeds)
                exe = paddle.static.Executor(paddle.CPUPlace())
                given = {key: array for key, (array, _) in feeds.items()}
                (value,) = exe.run(main, feed=given, fetch_list=[result])
            found.append([str(value.dtype), [str(float(one)) for one in np.ravel(value)]])
        except Exception:  # 2.6.2 says so with many types
            found.append(None)
    with gzip.GzipFile(PATH, "wb", mtime=0) as out:
        out.write(json.dumps(found).encode())


if __name__ == "__main__":
    record()
