"""Writing the ops that a fused op holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fluidlite.base.dtypes import VarType
from fluidlite.ir.operator import Operator

if TYPE_CHECKING:
    from fluidlite.ir.block import Block

__all__ = ["PlainOps", "Rule", "UnknownForm", "Write"]


class UnknownForm(Exception):
    """An op is fused in a way that cannot be written out; the text continues "op 'x' ..."."""


class PlainOps:
    """The plain ops in place of one fused op, in order; `value` is the name of the last result."""

    def __init__(self, op: Operator) -> None:
        self.op = op
        self.block: Block = op.block
        self.steps: list[tuple[str, dict[str, list[str]], str, str, dict[str, Any]]] = []
        self.value = ""

    def name(self, slot: str) -> str:
        """The variable in an input slot, "" without one."""
        return next(iter(self.op.inputs.get(slot, ())), "")

    def attr(self, name: str, default: Any) -> Any:
        """An attribute, `default` where the op has none."""
        return self.op.attrs.get(name, default)

    def given(self, names: str) -> dict[str, Any]:
        """Those of the attributes `names` that the op has."""
        return {name: self.op.attrs[name] for name in names.split() if name in self.op.attrs}

    def names(self, slot: str) -> list[str]:
        """All variables in an input slot."""
        return list(self.op.inputs.get(slot, ()))

    def shape(self, name: str) -> tuple[int, ...]:
        """The declared shape of a variable, () for one that is not declared."""
        var = self.block._find_var_recursive(name)
        return tuple(var.shape or ()) if var is not None else ()

    def dtype(self, name: str) -> VarType:
        """The declared data type of a variable, float32 for one that is not declared."""
        var = self.block._find_var_recursive(name)
        return VarType.FP32 if var is None or var._dtype is None else var._dtype

    def add(self, type: str, inputs: Mapping[str, str | list[str]], out: str = "Out", **attrs: Any) -> str:
        """One more op, whose result goes on unless another is added behind it; the result's name."""
        name = f"{self.op.output_arg_names[0]}.unfused_{len(self.steps)}"
        while self.block._find_var_recursive(name) is not None:
            name += "_"
        given = {slot: [each] if isinstance(each, str) else each for slot, each in inputs.items() if each}
        self.steps.append((type, given, out, name, attrs))
        self.value = name
        return name

    def then(self, type: str, slot: str = "X", out: str = "Out", **attrs: Any) -> None:
        """One more op on the last result."""
        self.add(type, {slot: self.value}, out, **attrs)

    def ops(self, result: str, others: Mapping[str, list[str]]) -> list[Operator]:
        """The ops, of which the last writes `result`; `others` are outputs that the first op keeps."""
        made: list[Operator] = []
        for type, inputs, out, name, attrs in self.steps:
            target = result if name == self.value else name
            outputs = {out: [target]} if made else {out: [target], **others}
            if target != result:
                self.block.create_var(name=target, dtype=VarType.FP32, shape=())
            op = Operator.build(self.block, type, inputs, outputs, attrs)
            op.where = self.op.where
            if target != result:
                op.infer()
            made.append(op)
        return made


Write = Callable[[PlainOps], None]
Rule = tuple[str, Callable[[Operator], bool], Write]
"""Op types, the sign that an op of them holds others, and the function that writes these."""
