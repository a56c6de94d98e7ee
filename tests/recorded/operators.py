"""Operators on Variables, and indices into them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .facts import Case, Cases, declare

BINARY = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "pow": operator.pow,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
    "mod": operator.mod,
    "floordiv": operator.floordiv,
}
# 1.8.5 has no kernel, or a wrong one; FluidLite does what Python does
BETTER_HERE = frozenset(
    [
        "floordiv",
        "floordiv_batch",
        "floordiv_cast",
        "floordiv_low",
        "floordiv_number",
        "floordiv_fraction",
        "floordiv_numpy",
        "floordiv_truth",
        "pow_low",
        "mod_low",
        "lt_low",
        "le_low",
        "gt_low",
        "ge_low",
        "eq_low",
        "ne_low",
        "div_reversed_integers",
        "pow_reversed_integers",
    ]
)


def operators(fluid: Any) -> Cases:
    """`x + y` and its like on Variables and numbers of several types."""
    data = declare(fluid)

    def whole() -> Any:
        return data("x", (2, 3), "int64")

    cases: Cases = {}
    for name, f in BINARY.items():
        cases.update(
            {
                name: lambda f=f: f(data("x", (2, 3)), data("y", (2, 3))),
                name + "_batch": lambda f=f: f(data("x", (None, 3)), data("y", (None, 3))),
                name + "_integers": lambda f=f: f(whole(), whole() + 1),
                name + "_cast": lambda f=f: f(data("x", (2, 3)), data("y", (2, 3), "int32") + 1),
                name + "_low": lambda f=f: f(data("x", (3,)), data("y", (2, 3))),
                name + "_number": lambda f=f: f(data("x", (2, 3)), 2),
                name + "_fraction": lambda f=f: f(data("x", (None, 3)), 2.5),
                name + "_reversed": lambda f=f: f(2, data("x", (2, 3))),
                name + "_reversed_batch": lambda f=f: f(2.5, data("x", (None, 3))),
                name + "_reversed_last": lambda f=f: f(2.5, data("x", (3, None))),
                name + "_integer_number": lambda f=f: f(whole(), 2),
                name + "_integer_fraction": lambda f=f: f(whole(), 2.5),
                name + "_reversed_integers": lambda f=f: f(5, data("x", (None, 3), "int32") + 1),
                name + "_text": lambda f=f: f(data("x", (2, 3)), "a"),
                name + "_numpy": lambda f=f: f(data("x", (2, 3)), np.float32(2)),
                name + "_truth": lambda f=f: f(data("x", (2, 3)), True),
            }
        )
    cases.update(
        {
            "neg": lambda: -data("x", (2, 3)),
            "neg_integers": lambda: -whole(),
            "astype": lambda: data("x", (2, 3)).astype("int64"),
            "astype_numpy": lambda: data("x", (2, 3)).astype(np.float64),
            "and": lambda: data("x", (2, 3), "bool") & data("y", (2, 3), "bool"),
            "abs": lambda: abs(data("x", (2, 3))),
            "len": lambda: len(data("x", (2, 3))),
        }
    )
    return {name: case for name, case in cases.items() if name not in BETTER_HERE}


def indices(fluid: Any) -> Cases:
    """`x[...]` with numbers, slices and Variables."""
    layers, data = fluid.layers, declare(fluid)

    def number(value: int) -> Any:
        return layers.fill_constant([1], "int32", value)

    taken = {
        "row": lambda x: x[0],
        "last": lambda x: x[-1],
        "element": lambda x: x[0, 0, 0],
        "two": lambda x: x[1, 2],
        "from": lambda x: x[1:],
        "to": lambda x: x[:2],
        "tail": lambda x: x[-1:],
        "all_but_last": lambda x: x[:-1],
        "negative": lambda x: x[-3:-1],
        "beyond": lambda x: x[0:100],
        "step_one": lambda x: x[1:3:1],
        "whole": lambda x: x[:],
        "range_and_number": lambda x: x[1:3, 0],
        "column": lambda x: x[:, 1],
        "last_column": lambda x: x[:, -1],
        "middle": lambda x: x[:, 0:2, 1],
        "reversed": lambda x: x[::-1],
        "columns_reversed": lambda x: x[:, ::-1],
        "range_reversed": lambda x: x[:, :2, ::-1],
        "back": lambda x: x[3:0:-1],
        "twice": lambda x: x[0][1],
        "true": lambda x: x[True],
        "text": lambda x: x["a"],
        "none": lambda x: x[None],
        "list": lambda x: x[[0, 1]],
    }
    given = {
        "row": lambda x: x[number(1)],
        "from": lambda x: x[number(1) :],
        "to": lambda x: x[: number(2)],
        "range": lambda x: x[number(1) : number(3)],
        "second": lambda x: x[0, number(1)],
        "both": lambda x: x[number(0), number(1)],
        "step": lambda x: x[number(0) :: 2],
        "columns": lambda x: x[:, number(0) : 2],
        "end_step": lambda x: x[0 : number(2) : 2],
    }
    cases: Cases = {}
    for name, take in taken.items():
        cases[name] = lambda take=take: take(data("x", (4, 3, 2)))
        cases[name + "_batch"] = lambda take=take: take(data("x", (None, 3, 2)))
    for name, take in given.items():
        cases["variable_" + name] = lambda take=take: take(data("x", (4, 3, 2)))
    return cases


__all__ = ["BETTER_HERE", "Case", "indices", "operators"]
