"""Gradient rules: the context that each is given for a forward op, and the gradient ops that it emits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fluidlite.base import registry
from fluidlite.base.dtypes import VarType, is_float
from fluidlite.base.errors import UnsupportedError
from fluidlite.base.registry import EMPTY_VAR, GRAD_SUFFIX, grad_name
from fluidlite.ir.block import Block
from fluidlite.ir.operator import DEVICE_ATTR, NAMESCOPE_ATTR, ROLE_ATTR, ROLE_VAR_ATTR, Operator, OpRole

__all__ = [
    "GradientContext",
    "forward_name",
    "has_gradient",
    "helper_op",
    "is_gradient",
    "reads_of",
    "rename",
]


def has_gradient(op: Operator) -> bool:
    """True if a gradient flows through an op."""
    return op.definition is not None and op.definition.differentiable


def is_gradient(name: str) -> bool:
    """True if a variable is called like a gradient."""
    return GRAD_SUFFIX in name


def forward_name(name: str) -> str:
    """The variable that `name` is a gradient of: the part in front of the first @GRAD, or all of the name."""
    return name.partition(GRAD_SUFFIX)[0]


def reads_of(op: Operator) -> list[str]:
    """The gradients that a gradient op reads."""
    return [name for name in op.input_arg_names if is_gradient(name)]


def rename(ops: Sequence[Operator], old: str, new: str) -> None:
    """Call the variable `old` of `ops` `new`."""
    for op in ops:
        op._rename_input(old, new)
        op._rename_output(old, new)


def helper_op(
    block: Block,
    like: Operator,
    type: str,
    inputs: Mapping[str, list[str]],
    outputs: Mapping[str, list[str]],
    attrs: Mapping[str, Any],
) -> Operator:
    """An op that the backward pass needs besides gradients, as if written where `like` was."""
    common = {
        ROLE_ATTR: int(OpRole.Backward),
        DEVICE_ATTR: "",
        NAMESCOPE_ATTR: like.attrs.get(NAMESCOPE_ATTR, "/"),
    }
    op = Operator(block, type=type, inputs=inputs, outputs=outputs, attrs={**common, **attrs})
    op.where = like.where
    return op


def _refuse_second_complex(op: Operator) -> None:
    """UnsupportedError for the gradient of a complex gradient: a second derivative would have to know of the
    conjugates that kernels are given.
    """
    if op.definition is None or not any(slot.endswith(GRAD_SUFFIX) for slot in op.inputs):
        return
    found = (op.block._find_var_recursive(name) for name in op.input_arg_names if name != EMPTY_VAR)
    if any(var is not None and var._dtype in (VarType.COMPLEX64, VarType.COMPLEX128) for var in found):
        raise UnsupportedError(
            f"op {op.type!r}: there are no gradients of gradients of complex numbers\n  built at {op.where}"
        )


class GradientContext:
    """The `GradContext` of one forward op; afterwards `ops` holds its gradient ops and `grad_of` what they
    make.

    `no_grad` are names of gradients that must not be made; `grad_block` has the gradient ops of the op's
    sub-block; `older` are the variables that have a value before the op writes them. `forward` is the op as
    it stands in the program, where `op` has names for versions of variables.
    """

    def __init__(
        self,
        op: Operator,
        no_grad: set[str],
        grad_block: Block | None = None,
        older: Collection[str] = (),
        forward: Operator | None = None,
    ) -> None:
        self.op = op
        self.forward = forward if forward is not None else op
        self.no_grad = no_grad
        self.grad_block = grad_block
        self.older = older
        self.ops: list[Operator] = []
        self.grad_of: dict[str, str] = {}
        rule = op.definition.grad_rule_fn if op.definition is not None else None
        if rule is not None and has_gradient(op):
            _refuse_second_complex(op)
            rule(self)

    def input(self, slot: str) -> list[str]:
        """Names in an input slot of the forward op; none where it is the gradient that nobody made."""
        names = list(self.op.inputs.get(slot, ()))
        return [] if len(names) == 1 and self._is_unmade(self.forward.inputs[slot][0]) else names

    def _is_unmade(self, name: str) -> bool:
        """True for a gradient that a gradient op would read, if anything made it."""
        return is_gradient(name) and self.forward.block._find_var_recursive(name) is None

    def may_vary(self, slot: str) -> bool:
        """True if an input slot holds variables, and all of them elements that are real numbers."""
        found = [self.op.block._find_var_recursive(name) for name in self.forward.inputs.get(slot, ())]
        return bool(found) and all(
            # a variable that only carries a shape has no elements
            var is not None and var._dtype is not None and is_float(var._dtype) and 0 not in var.shape
            for var in found
        )

    def output(self, slot: str) -> list[str]:
        """Names in an output slot of the forward op."""
        return list(self.op.outputs.get(slot, ()))

    def out_grad(self, slot: str) -> list[str]:
        """Names of the gradients of an output slot."""
        names = self.output(slot)
        self.grad_of.update((grad_name(name), name) for name in names if name != EMPTY_VAR)
        return [EMPTY_VAR if name == EMPTY_VAR else grad_name(name) for name in names]

    def in_grad(self, slot: str) -> list[str]:
        """Names of the gradients of an input slot, EMPTY_VAR where none must be made."""
        return [self.gradient_of(name) for name in self.input(slot)]

    def gradient_of(self, name: str) -> str:
        """Name of the gradient to make of a variable, EMPTY_VAR where none must be made."""
        if name == EMPTY_VAR or grad_name(name) in self.no_grad:
            return EMPTY_VAR
        self.grad_of[grad_name(name)] = name
        return grad_name(name)

    def has_gradient(self, name: str, made: Collection[str]) -> bool:
        """True if the gradient of `name`, a variable, is among `made` and must be made."""
        if grad_name(name) in self.no_grad or grad_name(name) not in made:
            return False
        self.grad_of[grad_name(name)] = name
        return True

    def is_floating(self, slot: str) -> bool:
        """True if the variables in an input slot hold floating-point numbers."""
        variables = map(self.forward.block._find_var_recursive, self.forward.input(slot))
        return all(var is not None and is_float(var.dtype) for var in variables)

    def emit(
        self,
        type: str,
        inputs: Mapping[str, list[str]],
        outputs: Mapping[str, list[str]],
        attrs: Mapping[str, Any] | None = None,
    ) -> Operator:
        """Add a gradient op with the forward op's attributes, or with `attrs` and the forward op's device
        and scope.
        """
        if attrs is None:
            # the parameter and its gradient are written on the last op only, once it is known which that is
            attrs = {**self.op.attrs, ROLE_VAR_ATTR: []}
        else:
            common = (DEVICE_ATTR, NAMESCOPE_ATTR)
            attrs = {**{name: self.op.attrs[name] for name in common if name in self.op.attrs}, **attrs}
        outputs = {slot: self._alone(names) for slot, names in outputs.items()}
        op = Operator(
            self.op.block,
            type=type,
            inputs=inputs,
            outputs=outputs,
            attrs={**attrs, ROLE_ATTR: int(OpRole.Backward)},
        )
        # an error in a gradient op is the user's forward line, not the call of `minimize`
        op.where = self.op.where
        # attributes that a file gave other types than usual keep them in the gradient op
        op.attr_types = {name: kind for name, kind in self.op.attr_types.items() if name in op.attrs}
        self.ops.append(op)
        return op

    @staticmethod
    def _alone(names: list[str]) -> list[str]:
        """A slot of one variable is left empty where Paddle's is, instead of holding EMPTY_VAR."""
        return [] if list(names) == [EMPTY_VAR] else list(names)

    def default(self) -> Operator:
        """Add the declared gradient op: forward inputs, forward outputs and output gradients, as far as it
        reads them.
        """
        assert self.op.definition is not None
        gradient = registry.get(self.op.definition.grad_type)
        found = {slot: self._source(slot) for slot in gradient.inputs}
        inputs = {slot: names for slot, names in found.items() if names}
        slots = [slot for slot in self.op.definition.grad_slots if self.input(slot)]
        outputs = {grad_name(slot): self.in_grad(slot) for slot in slots}
        return self.emit(gradient.type, inputs, outputs)

    def _source(self, slot: str) -> list[str]:
        if slot in self.op.inputs:
            return self.input(slot)
        if slot in self.op.outputs:
            return self.output(slot)
        return self.out_grad(slot.removesuffix(GRAD_SUFFIX))
