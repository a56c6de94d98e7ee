"""Declared dtypes and shapes of the functions of the 2.x door: those of the values that come out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from golden import functions_2x as cases

import fluidlite.paddle as paddle
from fluidlite import unique_name
from fluidlite.base.dtypes import to_numpy

FEEDS = cases.feeds()
OTHER = {"float32": "float64", "float64": "float32", "int64": "int32", "int32": "int64"}


KINDS = ["bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64"]


@pytest.mark.parametrize("code", [code for code in cases.expressions() if cases.used_inputs(code)])
def test_declared(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With operands of other dtypes than the recorded ones; functions may refuse them."""
    check(code, OTHER, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("code", [code for code in cases.expressions() if cases.used_inputs(code)])
def test_declared_of_each_kind(code: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fractions, and then whole numbers, in place of which there are numbers of each kind."""
    check(code, {"float32": kind, "float64": kind}, monkeypatch)
    check(code, {"int32": kind, "int64": kind}, monkeypatch)


def check(code: str, others: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are what a program declares of them, for inputs of other dtypes."""
    fed: dict[str, np.ndarray[Any, Any]] = {}
    for name in cases.used_inputs(code):
        shape, dtype, *rest = cases.INPUTS[name]
        other = others.get(dtype, dtype)
        monkeypatch.setitem(cases.INPUTS, name, (shape, other, *rest))
        with np.errstate(all="ignore"):
            fed[name] = FEEDS[name].astype(other)
    try:
        built = cases.Built(paddle, unique_name.guard, code)
        values = built.run(**fed)
    except Exception:  # a function says in many ways that it does not take a dtype
        return
    results = [one for one in built.results if hasattr(one, "name")]
    for declared, value in zip(results, values, strict=False):
        assert to_numpy(declared.dtype) == value.dtype
        assert len(declared.shape) == value.ndim
        assert all(dim in (-1, size) for dim, size in zip(declared.shape, value.shape, strict=True))
