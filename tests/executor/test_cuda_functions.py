"""The functions of element-wise kernels, beside NumPy's: numbers, zeros of both signs, NaN and infinities."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from fluidlite.executor.cuda.elementwise import FusedKernel, Part
from fluidlite.executor.plan.actions import Elementwise
from fluidlite.executor.plan.values import Storage, Value, ValueFactory
from fluidlite.ops.kernels.scalar import FUNCTIONS, PREDICATES

pytestmark = pytest.mark.gpu
NUMBERS = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -3.0, 30.0, np.nan, np.inf, -np.inf]
# floors of quotients that are infinite or NaN: nothing depends on them
UNLIKE = ("mod", "floordiv", "where", "both", "either", "invert", "differ")


def arity(function: str) -> int:
    return 2 if "{1}" in FUNCTIONS[function][1] else 1


def wanted(function: str, x: Any, y: Any) -> Any:
    if function == "erf":
        import math

        return np.array([math.erf(number) for number in x])
    return getattr(np, FUNCTIONS[function][0])(*(x, y)[: arity(function)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions(dtype: str) -> None:
    import cupy

    functions = [name for name in FUNCTIONS if name not in UNLIKE]
    x, y = (np.array(side, dtype) for side in zip(*itertools.product(NUMBERS, NUMBERS), strict=True))
    factory = ValueFactory()
    inputs = tuple(factory.make(x.shape, dtype, Storage.BUFFER) for _ in range(2))

    def step(name: str) -> tuple[Elementwise, Value]:
        kind = bool if name in PREDICATES else dtype
        return Elementwise(name, inputs[: arity(name)]), factory.make(x.shape, kind, Storage.BUFFER)

    run = tuple(step(name) for name in functions)
    kernel = FusedKernel("functions", [Part(run, inputs, tuple(out for _, out in run))])
    kernel.compile(cupy)
    found = [cupy.zeros(x.shape, out.dtype) for _, out in run]
    kernel(cupy.asarray(x), cupy.asarray(y), *found)
    for name, values in zip(functions, found, strict=True):
        with np.errstate(all="ignore"):
            want = wanted(name, x, y)
        rtol = 1e-5 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(values.get(), want.astype(values.dtype), rtol=rtol, err_msg=name)
