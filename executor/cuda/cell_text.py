"""Steps of cells as CUDA C: those that `fluidlite.ops.kernels.cells` declares."""

from __future__ import annotations

from collections.abc import Sequence

from fluidlite.ops.kernels.activations import expanded
from fluidlite.ops.kernels.cells import CellSteps
from fluidlite.ops.kernels.scalar import FUNCTIONS, Ref
from fluidlite.ops.kernels.scalar_steps import Operand, ScalarSteps

__all__ = ["cell_text"]


def cell_text(
    cell: CellSteps, given: Sequence[str], wanted: Sequence[str], is_forward: bool, prefix: str = "v"
) -> str:
    """The statements that give variables the values that are wanted, from those that have others; `prefix` is
    that of the variables between.

    Products with the value before are zeros where the variable `is_known` says that there is none: the other
    factor may be NaN.
    """
    names: dict[Operand, str] = {cell.values.get(name, name): name for name in given}
    ends = [cell.values[name] for name in wanted]
    lines = []
    for index in cell.steps.needed_by(ends, names):
        node = cell.steps.nodes[index]
        value = _value(node.function, node.operands, [_spelled(item, names) for item in node.operands])
        if is_forward and node.function == "mul" and "before" in node.operands:
            value = f"is_known ? {value} : (S)0"
        names[Ref(index)] = f"{prefix}{index}"
        lines.append(f"const S {prefix}{index} = {value};")
    lines += [f"const S {name} = {_spelled(end, names)};" for name, end in zip(wanted, ends, strict=True)]
    return f"{' '.join(lines)}"


def _value(function: str, operands: tuple[Operand, ...], spelled: Sequence[str]) -> str:
    declared = expanded(function, operands)
    if declared is None:
        return FUNCTIONS[function][1].format(*spelled)
    steps, end = declared
    return _nested(steps, end, spelled[0])


def _nested(steps: ScalarSteps, operand: Operand, x: str) -> str:
    """An expression of a variable."""
    if not isinstance(operand, Ref):
        return _spelled(operand, {"x": x})
    node = steps.nodes[operand.index]
    return FUNCTIONS[node.function][1].format(*(_nested(steps, item, x) for item in node.operands))


def _spelled(operand: Operand, names: dict[Operand, str]) -> str:
    return f"(S){operand!r}" if isinstance(operand, int | float) else names.get(operand, str(operand))
