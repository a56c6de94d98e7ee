"""Shared by the property tests: small arrays, and one op or layer run twice, by a plan and by the
interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import fluidlite as fluid

Arrays = Mapping[str, Any]
EXAMPLES = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def values(shape: Sequence[int], seed: int, dtype: str = "float64") -> np.ndarray:
    """Numbers between -1 and 1 of which no two are alike, in no order."""
    count = int(np.prod(shape))
    return (np.random.default_rng(seed).permutation(count).reshape(shape) / max(count, 1) * 2 - 1).astype(
        dtype
    )


seeds = st.integers(0, 2**16)


def run(
    build: Callable[..., Any], feeds: Arrays, wants: Sequence[str] = (), seed: int = 0
) -> tuple[np.ndarray, ...]:
    """The output of `build` on the fed variables, and the gradients of `wants` when the output's gradient is
    `upstream(out, seed)`.

    Runs by a plan and by the interpreter, which must agree.
    """
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()), fluid.unique_name.guard():
        variables = {
            name: fluid.data(name, list(np.shape(array)), str(np.asarray(array).dtype))
            for name, array in feeds.items()
        }
        for var in variables.values():
            var.stop_gradient = False
        out = build(**variables)
    (shape,) = (array.shape for array in _run(program, feeds, [out.name]))
    fetches = [out]
    if wants:
        with fluid.program_guard(program):
            given = fluid.data("upstream", list(shape), "float64")
            fetches += fluid.gradients([out], [variables[name] for name in wants], [given])
        feeds = {**feeds, "upstream": upstream(shape, seed)}
    planned, naive = (_run(program, feeds, fetches, kind) for kind in (False, True))
    for one, other in zip(planned, naive, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)
    return tuple(planned)


def _run(
    program: fluid.Program, feeds: Arrays, fetches: Sequence[Any], naive: bool = True
) -> list[np.ndarray]:
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    return exe.run(program, feed=dict(feeds), fetch_list=list(fetches), scope=fluid.Scope())


def upstream(shape: Sequence[int], seed: int) -> np.ndarray:
    """The gradient that comes in."""
    return values(shape, seed + 1)


def append(
    op_type: str, inputs: Mapping[str, Any], out: str = "Out", dtype: str = "float64", **attrs: Any
) -> Any:
    """The output of an op that no layer makes in this form."""
    helper = fluid.layer_helper.LayerHelper(op_type)
    made = helper.create_variable_for_type_inference(dtype)
    helper.append_op(
        type=op_type, inputs={slot: [var] for slot, var in inputs.items()}, outputs={out: [made]}, attrs=attrs
    )
    return made
