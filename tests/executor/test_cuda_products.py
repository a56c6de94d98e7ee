"""Products on a device by cuBLAS: operands however they lie, alone and in graphs."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.executor.cuda import libraries, products
from fluidlite.executor.cuda.products import TF32, Products
from fluidlite.executor.run.cuda import CapturedStep

pytestmark = pytest.mark.gpu

SHAPES = {
    "matrices": ((5, 7), (7, 3), (5, 3)),
    "one row": ((1, 7), (7, 3), (1, 3)),
    "one column": ((5, 7), (7, 1), (5, 1)),
    "one number": ((1, 1), (1, 1), (1, 1)),
    "vectors": ((7,), (7,), ()),
    "a vector on the left": ((7,), (7, 3), (3,)),
    "a vector on the right": ((5, 7), (7,), (5,)),
    "stacks": ((2, 3, 5, 7), (2, 3, 7, 4), (2, 3, 5, 4)),
    "one for all of a stack": ((5, 7), (3, 7, 4), (3, 5, 4)),
    "some for some of a stack": ((2, 1, 5, 7), (3, 7, 4), (2, 3, 5, 4)),
    "nothing to add": ((5, 0), (0, 3), (5, 3)),
    "nothing": ((0, 5), (5, 3), (0, 3)),
}


def random(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)


def rows(cupy: Any, values: Any) -> Any:
    return cupy.asarray(values)


def columns(cupy: Any, values: Any) -> Any:
    """The same, with the last two dimensions the other way round in memory."""
    if values.ndim < 2:
        return cupy.asarray(values)
    return cupy.asarray(np.ascontiguousarray(values.swapaxes(-1, -2))).swapaxes(-1, -2)


def piece(cupy: Any, values: Any) -> Any:
    """The same, with gaps behind each row."""
    held = cupy.empty((*values.shape[:-1], values.shape[-1] + 2), values.dtype)[..., : values.shape[-1]]
    held[...] = cupy.asarray(values)
    return held


def scattered(cupy: Any, values: Any) -> Any:
    """The same, with gaps between all elements: no form that cuBLAS reads."""
    held = cupy.empty((*values.shape, 2), values.dtype)[..., 0]
    held[...] = cupy.asarray(values)
    return held


def heads_last(cupy: Any, values: Any) -> Any:
    """The same, with the second dimension of a stack behind the rows, as attention splits its heads."""
    if values.ndim < 4:
        return cupy.asarray(values)
    return cupy.asarray(np.ascontiguousarray(values.swapaxes(1, 2))).swapaxes(1, 2)


LAYOUTS = [rows, columns, piece, scattered, heads_last]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", SHAPES)
def test_products(name: str, dtype: str) -> None:
    import cupy

    left, right, shape = SHAPES[name]
    a, b = random(left, dtype, 1), random(right, dtype, 2)
    wide = "float64" if dtype == "float64" else "float32"
    expected = np.matmul(a.astype(wide), b.astype(wide))
    close = {"rtol": 1e-2, "atol": 1e-2} if dtype == "float16" else {"rtol": 1e-5, "atol": 1e-6}
    made = Products(cupy)
    for how in LAYOUTS:
        for other in LAYOUTS:
            for target in LAYOUTS if how is other else [rows]:
                x, y = how(cupy, a), other(cupy, b)
                out = target(cupy, np.full(shape, np.nan, dtype)) if shape else cupy.empty((), dtype)
                assert made.multiply(x, y, out) is out
                np.testing.assert_allclose(out.get(), expected, **close)
                made.multiply(x, y, out, adds=True)
                np.testing.assert_allclose(out.get(), 2 * expected, **close)


def test_more_matrices_than_a_call_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    monkeypatch.setattr(products, "_MOST_IN_STACK", 4)
    for most in (64, 3):  # beyond, copies without gaps
        monkeypatch.setattr(products, "_MOST_CALLS", most)
        a, b = random((5, 2, 3, 4), "float32", 1), random((5, 2, 4, 3), "float32", 2)
        out = heads_last(cupy, np.zeros((5, 2, 3, 3), "float32"))
        Products(cupy).multiply(heads_last(cupy, a), heads_last(cupy, b), out)
        np.testing.assert_allclose(out.get(), a @ b, rtol=1e-5, atol=1e-6)


def test_operands_that_cublas_does_not_multiply() -> None:
    import cupy

    a, b = np.arange(6).reshape(2, 3), np.arange(6).reshape(3, 2)
    out = cupy.empty((2, 2), "int64")
    Products(cupy).multiply(cupy.asarray(a), cupy.asarray(b), out)
    assert (out.get() == a @ b).all()


@pytest.fixture()
def without_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    load = ctypes.CDLL

    def missing(name: str, *arguments: Any) -> Any:
        if "cublas" in str(name):
            raise OSError(name)
        return load(name, *arguments)

    monkeypatch.setattr(libraries, "_found", {})
    monkeypatch.setattr(ctypes, "CDLL", missing)
    yield


def trained(place: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, bool]:
    """A weight after a few steps, and whether they were captured."""
    steps: list[CapturedStep] = []
    before = CapturedStep.__init__

    def made(self: CapturedStep, *args: Any) -> None:
        before(self, *args)
        steps.append(self)

    monkeypatch.setattr(CapturedStep, "__init__", made)
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        x = fluid.data("x", [None, 6])
        start = fluid.ParamAttr(name="w", initializer=fluid.initializer.Uniform(-0.5, 0.5, seed=3))
        loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(x, 5, param_attr=start)))
        fluid.optimizer.SGD(0.5).minimize(loss)
        exe = fluid.Executor(place)
        exe.run(fluid.default_startup_program())
        for step in range(4):
            exe.run(feed={"x": random((9, 6), "float32", step)}, fetch_list=[loss])
        found = np.array(fluid.global_scope().find_var("w").get_tensor())
    return found, any(step.graph is not None for step in steps if step.runs == 4)


def test_a_step_without_the_library_is_not_captured(
    without_library: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.warns(RuntimeWarning, match=r"libcublas.so.\d+ was not found: not loaded, not in a wheel"):
        found, is_captured = trained(fluid.CUDAPlace(0), monkeypatch)
    np.testing.assert_allclose(found, trained(fluid.CPUPlace(), monkeypatch)[0], rtol=1e-5, atol=1e-6)
    assert not is_captured


@pytest.mark.parametrize("in_tf32", [False, True])
def test_a_step_with_products_is_captured(in_tf32: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    fluid.set_flags({TF32: in_tf32})
    monkeypatch.setenv("CUPY_TF32", "0")
    try:
        found, is_captured = trained(fluid.CUDAPlace(0), monkeypatch)
    finally:
        fluid.set_flags({TF32: False})
    close = 1e-2 if in_tf32 else 1e-5
    np.testing.assert_allclose(found, trained(fluid.CPUPlace(), monkeypatch)[0], rtol=close, atol=close)
    assert is_captured
