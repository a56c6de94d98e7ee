"""Loops: `while` with its gradient, and the counter that it goes by."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import EnforceNotMet, ShapeError
from fluidlite.base.registry import BLOCK, EMPTY_VAR, STRINGS, GradContext, Lod, Op, Spec, grad_name
from fluidlite.ops.flow.sub_blocks import (
    SKIPPED,
    added,
    facts_of,
    gradient,
    gradient_frame,
    is_true,
    own_copies,
    snapshot,
    wanted_gradients,
    zeros_of,
)
from fluidlite.ops.tensors.array import entry
from fluidlite.values.tensor import LoDTensor, LoDTensorArray

while_op = Op(
    "while",
    "X*? Condition* -> Out*? StepScopes?",
    lod=None,
    updates=("Out",),
    frames="StepScopes",
    repeats=True,
    attrs={"sub_block": BLOCK, "is_test": False, **SKIPPED},
)


@while_op.kernel
def _(ctx: Any) -> dict[str, Any]:
    op = ctx.op
    body = ctx.op.attrs["sub_block"]
    facts = facts_of(ctx.op, "X", "StepScopes")
    condition = op.input("Condition")[0]
    if facts.keeps:
        own_copies(ctx, facts.carried)
    steps: list[Any] = []
    while is_true(ctx.frame.find(condition)):
        # only once the loop has begun: one whose condition is false from the start is right
        if condition not in facts.writes:
            raise EnforceNotMet(
                f"op 'while': the loop's body never writes its condition {condition!r}, so that it would "
                f"run for ever\n  built at {op.where}"
            )
        before = snapshot(ctx, facts.carried) if facts.keeps else {}
        step = ctx.frame.child(body)
        ctx.interpreter.run_block(body, step)
        if facts.keeps:
            steps.append(step)
        # the gradient block reads what the step began with: the frame keeps that instead of what was left
        for name, (value, lod) in before.items():
            step.values[name], step.lods[name] = value, lod
    return {"StepScopes": steps}


@while_op.grad_rule("X")
def _(context: GradContext) -> None:
    block = context.grad_block
    forward = context.op.attrs["sub_block"]
    made = {name for op in block.ops for name in op.output_arg_names}
    wanted = [name if name in made else EMPTY_VAR for name in context.in_grad("X")]
    # gradients that come into the loop: what its gradient ops read, and neither they nor the forward pass
    # make
    known = {*context.input("X"), *context.output("Out"), EMPTY_VAR}
    incoming: list[str] = []
    for op in block.ops:
        incoming += [
            name
            for name in op.input_arg_names
            if name not in known and name not in incoming and forward._find_var_recursive(name) is None
        ]
        known.update(op.output_arg_names)
    context.emit(
        "while_grad",
        {
            "X": context.input("X"),
            "Out": context.output("Out"),
            "Out@GRAD": incoming,
            "StepScopes": context.output("StepScopes"),
        },
        {"X@GRAD": wanted},
        {**context.op.attrs, "sub_block": block, "original_output_grad": incoming},
    )


while_grad = Op(
    "while_grad",
    "X*? Out*? Out@GRAD*? StepScopes -> X@GRAD*?",
    lod=None,
    attrs={"sub_block": BLOCK, "is_test": False, "original_output_grad": STRINGS(), **SKIPPED},
)


@while_grad.kernel
def _(
    ctx: Any,
    xp: Any,
    X: list[Any],
    X_lod: list[Lod],
    Out: list[Any],
    dOut: list[Any],
    StepScopes: list[Any],
    original_output_grad: list[str],
) -> dict[str, Any]:
    op = ctx.op
    wanted = wanted_gradients(ctx.op, "X")
    results = dict(zip(map(grad_name, op.input("Out")), Out, strict=True))
    incoming = {
        name: value if value is not None else zeros_of(xp, results.get(name))
        for name, value in zip(original_output_grad, dOut, strict=True)
    }
    loop = _LoopGradient(xp, incoming, replaced_names(op.attrs["sub_block"]))
    inside = dict(zip(op.input("Out@GRAD"), original_output_grad, strict=True))
    carried = {name for index, name in wanted if inside.get(op.output("X@GRAD")[index]) == name}
    # the last step first: each hands the gradient of what it read to the one before
    for step in reversed(StepScopes):
        frame = gradient_frame(ctx, step, [name for _, name in wanted], loop.incoming)
        ctx.interpreter.run_block(op.attrs["sub_block"], frame)
        loop.replace(frame, carried)
        loop.accumulate(frame, [name for _, name in wanted if name not in carried])
    found: list[Any] = [None] * len(op.output("X@GRAD"))
    for index, name in wanted:
        made = (
            loop.result(name, nested=ctx.frame.forward is not None)
            if name in carried
            else loop.totals.get(name)
        )
        found[index] = gradient(xp, made, X[index], X_lod[index])
    return {"X@GRAD": found}


def replaced_names(grad_block: Any) -> set[str]:
    """Gradients of what the forward block writes in every step, without what only its branches write."""
    forward = grad_block.program.blocks[grad_block.forward_block_idx]
    return {grad_name(name) for op in forward.ops if not op.sub_blocks() for name in op.output_arg_names}


class _LoopGradient:
    """The gradients that go from one step of a loop to the step before it, and those that add up over all
    steps.
    """

    def __init__(self, xp: Any, incoming: dict[str, Any], replaced: set[str]) -> None:
        self.xp = xp
        self.replaced = replaced
        self.incoming = incoming
        self.first = dict(incoming)
        self.totals: dict[str, Any] = {}

    def accumulate(self, frame: Any, names: Iterable[str]) -> None:
        """Add what the step found for variables that the loop only reads."""
        for name in names:
            self.totals[name] = added(self.xp, self.totals.get(name), frame.values.get(name))

    def replace(self, frame: Any, carried: set[str]) -> None:
        """Give the step before what this step found for variables that the loop replaces; entries of
        arrays add up.
        """
        for name, outer in self.incoming.items():
            inner = frame.values.get(name)
            if isinstance(inner, LoDTensorArray):
                written = changed(outer, inner)
                self.totals[name] = added(self.xp, self.totals.get(name), written)
                self.incoming[name] = added(self.xp, outer, written)
            elif name in carried:
                self.incoming[name] = inner
            elif inner is not None and name in self.replaced:
                # not read: only what the last step wrote counts
                self.incoming[name] = zeros_of(self.xp, inner)

    def result(self, name: str, nested: bool) -> Any:
        """The gradient before the first step. Inside another loop an array comes without what that loop
        will add itself.
        """
        return (
            array_result(self.incoming[name], self.totals.get(name), self.first[name])
            if nested
            else self.incoming[name]
        )


def array_result(value: Any, new: LoDTensorArray | None, old: LoDTensorArray | None) -> Any:
    """`value`; an array as the entries that a loop added, and those that came in where it added none."""
    if not isinstance(value, LoDTensorArray):
        return value
    new = new or LoDTensorArray()
    old = old or LoDTensorArray()
    return LoDTensorArray(
        new[index] if entry(new, index) is not None or index >= len(old) else old[index]
        for index in range(max(len(new), len(old)))
    )


def changed(outer: LoDTensorArray | None, inner: LoDTensorArray) -> LoDTensorArray:
    """The entries of `inner` that differ from those of `outer`; empty tensors for the others."""
    return LoDTensorArray(
        LoDTensor() if index < len(outer or ()) and (outer or ())[index] is item else item
        for index, item in enumerate(inner)
    )


# ---------------------------------------------------------------------- counters
increment = Op("increment", "X -> Out", attrs={"step": 1.0}, rewinds=True)


@increment.shape
def _(X: Spec) -> Spec:
    # a dimension that is not known counts as -1 in 1.8.5, so that [-1, 1] is refused, and [-1, -1] is not
    if math.prod(X.shape) != 1:
        raise ShapeError(f"op 'increment': X counts with one number, but has shape {list(X.shape)}")
    return Spec(X.shape, X.dtype)


@increment.kernel
def _(xp: Any, X: Array, step: float) -> Array:
    total: Array = X + xp.asarray(step).astype(X.dtype)
    return total


@increment.grad_rule("X")
def _(context: GradContext) -> None:
    # back to the value before, which the gradient ops of the body read
    context.emit(
        "increment",
        {"X": context.output("Out")},
        {"Out": context.input("X")},
        {**context.op.attrs, "step": -context.op.attrs["step"]},
    )
