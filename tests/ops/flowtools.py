"""Helpers of the tests of loops, branches, recurrences and arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from optest import differences

import fluidlite as fluid
from fluidlite import layers
from fluidlite.values.tensor import LoDTensor, offsets_of

RNG = np.random.RandomState(11)


def data(name: str, shape: list[int], dtype: str = "float64", lod_level: int = 0) -> Any:
    var = fluid.data(name=name, shape=shape, dtype=dtype, lod_level=lod_level)
    var.stop_gradient = dtype != "float64"
    return var


def op(kind: str, attrs: dict[str, Any] | None = None, **inputs: Any) -> Any:
    """The output of an op that is appended without a layer."""
    block = fluid.default_main_program().current_block()
    first = next(iter(inputs.values()))
    out = block.create_var(dtype=(first[0] if isinstance(first, list) else first).dtype)
    block.append_op(type=kind, inputs=inputs, outputs={"Out": [out]}, attrs=attrs or {})
    return out


def constant(value: float, dtype: str = "int64", shape: tuple[int, ...] = (1,)) -> Any:
    return layers.fill_constant(shape=list(shape), dtype=dtype, value=value)


def run(fetches: list[Any], feeds: dict[str, Any] | None = None, program: Any = None) -> list[Any]:
    found: list[Any] = fluid.Executor(fluid.CPUPlace()).run(
        program or fluid.default_main_program(), feeds or {}, fetches, scope=fluid.Scope(), return_numpy=False
    )
    return found


def values(fetches: list[Any], feeds: dict[str, Any] | None = None) -> list[np.ndarray]:
    return [np.asarray(found) for found in run(fetches, feeds)]


def rows(array: np.ndarray, *lengths: list[int]) -> LoDTensor:
    return LoDTensor(array, offsets_of(lengths))


def check_gradients(out: Any, feeds: dict[str, Any], names: list[str]) -> None:
    """The gradients of `out`'s squares equal central differences."""
    loss = op("mean", X=op("square", X=out))
    forward = fluid.default_main_program().clone()
    fluid.backward.append_backward(loss)
    for name, found in zip(names, values([f"{name}@GRAD" for name in names], feeds), strict=True):
        wanted = differences(
            lambda feed: float(np.asarray(run([loss.name], feed, forward)[0]).sum()), feeds, name, 1e-5
        )
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-8, err_msg=name)


def repeat(times: Any, start: Any, step: Callable[[Any], Any]) -> Any:
    """`step` applied `times` times to `start`."""

    def body(count: Any, state: Any) -> list[Any]:
        return [layers.increment(count), step(state)]

    return layers.while_loop(lambda count, state: layers.less_than(count, times), body, [constant(0), start])[
        1
    ]
