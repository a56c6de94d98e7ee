"""Steps of cells on vectors: those that `fluidlite.ops.kernels.cells` declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fluidlite.executor.fast.loops.arithmetic import result_of
from fluidlite.executor.fast.loops.vectors import Code, Vector
from fluidlite.ops.kernels.activations import expanded
from fluidlite.ops.kernels.cells import CellSteps
from fluidlite.ops.kernels.scalar import PREDICATES, Ref
from fluidlite.ops.kernels.scalar_steps import Operand

__all__ = ["cell_lanes"]

_FLOAT = "float"


def cell_lanes(
    code: Code,
    cell: CellSteps,
    given: Mapping[str, Vector],
    wanted: Sequence[str],
    if_known: Callable[[Vector], Vector] | None = None,
) -> list[Vector]:
    """The values that are wanted, from those that are given by name.

    `if_known` gives zeros in place of products with the value before, where there is none.
    """
    found = {cell.values.get(name, name): value for name, value in given.items()}
    ends = [cell.values[name] for name in wanted]
    for index in cell.steps.needed_by(ends, found):
        node = cell.steps.nodes[index]
        operands = [_lanes(code, operand, found) for operand in node.operands]
        value = _value(code, node.function, node.operands, operands)
        is_masked = node.function == "mul" and "before" in node.operands
        found[Ref(index)] = if_known(value) if is_masked and if_known is not None else value
    return [_lanes(code, end, found) for end in ends]


def _value(code: Code, function: str, operands: tuple[Operand, ...], vectors: Sequence[Vector]) -> Vector:
    declared = expanded(function, operands)
    if declared is None:
        return _computed(code, function, vectors)
    steps, end = declared
    found: dict[Operand, Vector] = {"x": vectors[0]}
    for index, node in enumerate(steps.nodes):
        inner = [_lanes(code, operand, found) for operand in node.operands]
        found[Ref(index)] = _computed(code, node.function, inner)
    return _lanes(code, end, found)


def _computed(code: Code, function: str, vectors: Sequence[Vector]) -> Vector:
    value = result_of(code, function, vectors)
    assert value is not None, f"{function} has no code"
    return value.converted(_FLOAT) if function in PREDICATES else value


def _lanes(code: Code, operand: Operand, found: Mapping[Operand, Vector]) -> Vector:
    return code.number(operand, _FLOAT) if isinstance(operand, int | float) else found[operand]
