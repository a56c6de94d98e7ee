"""Shape rules with sizes that are not known: what they declare holds for every size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from optest import Case, build
from test_ops import CASES

from fluidlite.base.open_sizes import ANY, OpenSize, fits, opened
from fluidlite.base.registry import Spec, get
from fluidlite.ir.operator import Operator


def specs_of(op: Operator) -> dict[str, list[Spec | None]]:
    return {slot: [op._spec(name) for name in names] for slot, names in op.inputs.items()}


def with_one_open(inputs: dict[str, list[Spec | None]]) -> Iterator[tuple[str, dict[str, list[Spec | None]]]]:
    """The inputs with each dimension of each of them not known, one at a time; then all first ones."""
    for slot, specs in inputs.items():
        for number, spec in enumerate(specs):
            for axis in range(len(spec.shape) if spec is not None else 0):
                assert spec is not None
                shape = [-1 if i == axis else dim for i, dim in enumerate(spec.shape)]
                opened: list[Any] = list(specs)
                opened[number] = spec._replace(shape=tuple(shape))
                yield f"{slot}[{number}] as {shape}", {**inputs, slot: opened}
    batches = {
        slot: [spec and spec._replace(shape=(-1, *spec.shape[1:]) if spec.shape else ()) for spec in specs]
        for slot, specs in inputs.items()
    }
    yield "all batches", batches
    everything = {
        slot: [spec and spec._replace(shape=(-1,) * len(spec.shape)) for spec in specs]
        for slot, specs in inputs.items()
    }
    yield "all sizes", everything


# the size of such a tensor is the rank of the result, or a size of 1 takes a dimension away
RANK_IS_OPEN = (
    "expand_v2",
    "fill_constant",
    "gaussian_random",
    "randint",
    "squeeze",
    "squeeze2",
    "uniform_random",
)
RANK_IS_OPEN += ("unsqueeze", "unsqueeze2")


@pytest.mark.parametrize("case", [case for case in CASES if not case.op.endswith("_grad")], ids=str)
def test_declared_shapes(case: Case) -> None:
    """Each size that is declared is the one that known shapes give; nothing is refused for an open one."""
    op = build(case)[0].global_block().ops[-1]
    definition = get(op.type)
    # 1.8.5 multiplies with -1, and programs tell by it
    if definition.shape_rule is None or op.type == "increment":
        return
    inputs = specs_of(op)
    wanted = definition.infer(inputs, op.attrs)
    for what, given in with_one_open(inputs):
        found = definition.infer(given, op.attrs)
        pairs = [pair for slot in wanted for pair in zip(wanted[slot], found.get(slot, ()), strict=False)]
        for spec, other in pairs:
            text = f"{case.op} with {what}: {other.shape} for known sizes {spec.shape}"
            if op.type in RANK_IS_OPEN and len(other.shape) != len(spec.shape):
                continue
            assert len(other.shape) == len(spec.shape), text
            assert all(dim in (-1, known) for dim, known in zip(other.shape, spec.shape, strict=True)), text
            assert not any(type(dim) is OpenSize for dim in other.shape), text


def test_open_sizes() -> None:
    """Arithmetic keeps them open; they are -1, and are not said to differ from sizes that they may be."""
    assert all(type(one) is OpenSize for one in (ANY * ANY, 2 * ANY, ANY + 1, 3 - ANY, ANY // 2, -ANY))
    assert ANY == -1 and ANY < 0 and ANY * 0 == 0 and str(ANY) == "-1"
    assert [ANY != size for size in (3, 0, 1)] == [False, False, True] and ANY % 3 == 0
    shape = opened((2, -1))
    assert [shape != one for one in ((2, 3), (3, 3), (2,))] == [False, True, True]
    assert fits(3, ANY) and fits((1, ANY), (1, 4)) and not fits((2, ANY), (1, 4)) and fits(4, 3, 4)
