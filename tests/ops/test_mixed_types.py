"""Operands of two floating-point types: an op refuses them, as 1.8.5 does, or keeps to what is declared.

What a later op counts on is the declared type: results have that of the shape rule, and gradients those of
their variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from optest import Case, _items, build
from test_ops import CASES

import fluidlite as fluid
from fluidlite.base.dtypes import to_numpy, to_vartype
from fluidlite.base.registry import get
from fluidlite.errors import FluidError
from fluidlite.values.tensor import LoDTensor, SelectedRows

OTHER = {"float32": "float64", "float64": "float32"}
FIRST_OF_EACH = list({case.op: case for case in reversed(CASES) if case.grad}.values())


def named(case: Case, slots: Any) -> list[str]:
    """The variables of input slots."""
    return [f"{slot}_{i}" for slot in slots for i in range(len(_items(case.inputs[slot])))]


def mixed(case: Case, dtype: str) -> Iterator[tuple[Any, dict[str, Any], list[str]]]:
    """The op with all inputs of a type but one: program, feeds and results."""
    for name in named(case, case.inputs):
        program, feeds, outputs = build(case, dtype)
        held = feeds[name]
        if np.asarray(held).dtype != np.dtype(dtype):
            continue
        array = np.asarray(held).astype(OTHER[dtype])
        feeds[name] = LoDTensor(array, held._lod) if isinstance(held, LoDTensor) else array
        program.global_block().var(name).desc.set_dtype(to_vartype(array.dtype))
        slots = case.wants or [next(iter(get(case.op).outputs))]
        yield program, feeds, [name for slot in slots for name in outputs[slot]]


def wrong_types(
    case: Case, program: Any, feeds: dict[str, Any], results: list[str], naive: bool
) -> list[str]:
    """The results and gradients that have another type than is declared."""
    block = program.global_block()
    for op in block.ops:
        op.infer()
    variables = [block.var(name) for name in named(case, case.grad)]
    with fluid.program_guard(program):
        found = fluid.gradients([block.var(name) for name in results], variables)
    wanted = {name: to_numpy(block.var(name).dtype) for name in results}
    wanted |= {
        gradient.name: np.asarray(feeds[var.name]).dtype
        for var, gradient in zip(variables, found, strict=True)
        if gradient is not None
    }
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    values = exe.run(program, feed=feeds, fetch_list=list(wanted), return_numpy=False, scope=fluid.Scope())
    wrong = []
    for (name, dtype), value in zip(wanted.items(), values, strict=True):
        array = value.array if isinstance(value, SelectedRows) else np.asarray(value)
        if array.dtype != dtype:
            wrong.append(f"{name} is {array.dtype}, declared {dtype}")
    return wrong


@pytest.mark.parametrize("naive", [False, True], ids=["plan", "interpreter"])
@pytest.mark.parametrize("case", FIRST_OF_EACH)
def test_types_are_those_declared(case: Case, naive: bool) -> None:
    for dtype in OTHER:
        for program, feeds, results in mixed(case, dtype):
            try:
                assert wrong_types(case, program, feeds, results, naive) == []
            except FluidError:
                continue
