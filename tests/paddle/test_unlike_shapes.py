"""Functions of two tensors whose shapes do not fit: an error, or what is declared."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle
from fluidlite.errors import ShapeError

SHAPES = [
    ((1, 1), (2, 2)),
    ((2, 2), (1, 1)),
    ((2, 2), (2, 1)),
    ((1, 2), (2, 2)),
    ((2,), (2, 2)),
    ((2, 2), (2,)),
    ((2, 2), ()),
    ((), (2, 2)),
    ((), ()),
]
UNCLEAR = ("(IndexError)", "(ZeroDivisionError)")
SECOND_IS_A_SHAPE = {"broadcast_to", "expand", "tile", "unsqueeze", "reshape"}


def functions() -> list[str]:
    """Paths of the functions that need two tensors, and nothing else."""
    names = importlib.import_module("ops.draws.common_2x").names_2x()
    found = []
    for module in ("paddle", "paddle.nn.functional", "paddle.linalg"):
        for name in names[module]:
            function = resolved(f"{module}.{name}")
            if inspect.isfunction(function) and not name.endswith("_") and name not in SECOND_IS_A_SHAPE:
                parameters = inspect.signature(function).parameters.values()
                if sum(one.default is one.empty and one.kind in (0, 1) for one in parameters) == 2:
                    found.append(f"{module}.{name}")
    return found


def resolved(path: str) -> Any:
    """Everything that a path below `paddle` names."""
    found: Any = paddle
    for part in path.split(".")[1:]:
        found = getattr(found, part, None)
    return found


@pytest.mark.parametrize("path", functions())
@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_an_error_or_what_is_declared(path: str, dtype: str) -> None:
    paddle.enable_static()
    for shapes in SHAPES:
        with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
            feed = {
                name: np.sqrt(np.arange(np.prod(shape, dtype=int))).reshape(shape).astype(dtype)
                for name, shape in zip("xy", shapes, strict=True)
            }
            inputs = [paddle.static.data(name, array.shape, dtype) for name, array in feed.items()]
            for var in inputs:
                var.stop_gradient = dtype == "int64"
            try:
                made = resolved(path)(*inputs)
                outputs = [made] if isinstance(made, paddle.static.Variable) else list(made)
                wanted = [var for var in outputs if not var.stop_gradient]
                gradients = paddle.static.gradients(wanted, inputs) if wanted else []
                found = paddle.static.Executor().run(feed=feed, fetch_list=outputs)
            except Exception as error:  # any says that the shapes do not fit
                assert not (isinstance(error, ShapeError) and str(error).partition("\n")[0].endswith(UNCLEAR))
                continue
            for var, array in zip(outputs, found, strict=True):
                assert len(var.shape) == array.ndim
                assert all(size in (-1, real) for size, real in zip(var.shape, array.shape, strict=True))
            for var, gradient in zip(inputs, gradients, strict=False):
                if gradient is not None:
                    (array,) = paddle.static.Executor().run(feed=feed, fetch_list=[gradient])
                    assert array.shape == feed[var.name].shape
