"""Loops: `while` with its gradient, and the counter that it goes by."""

from __future__ import annotations

import math
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
    replaced_unread,
    snapshot,
    wanted_gradients,
    zeros_of,
)

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
    facts = facts_of(ctx.op, "X")
    condition = op.input("Condition")[0]
    if facts.keeps:
        own_copies(ctx, facts.carried)
    steps: list[Any] = []
    while is_true(ctx.frame.find(condition)):
        # only once the loop has begun: one whose condition is false from the start is right
        if condition not in facts.writes:
            raise EnforceNotMet(
                f"op 'while': the loop's body never writes its condition {condition!r}, so it "
                f"would run for ever\n  built at {op.where}"
            )
        before = snapshot(ctx, facts.carried) if facts.keeps else {}
        step = ctx.frame.child(body)
        ctx.interpreter.run_block(body, step)
        if facts.keeps:
            steps.append(step)
            # the gradient counts these back, in each pass from where the step has left them
            before.update(snapshot(ctx, facts.counted))
        # the gradient block reads what the step began with: the frame keeps that instead of what was left
        for name, (value, lod) in before.items():
            step.values[name], step.lods[name] = value, lod
    return {"StepScopes": steps}


@while_op.grad_rule("X")
def _(context: GradContext) -> None:
    block = context.grad_block
    forward = context.op.attrs["sub_block"]
    made = {name for op in block.ops for name in op.output_arg_names}
    passed = replaced_unread(context, "X", made)
    wanted = [name if name in made else EMPTY_VAR for name in context.in_grad("X")]
    # gradients that come into the loop: what its gradient ops read, and neither they nor the forward pass
    # make
    known = {*context.input("X"), *context.output("Out"), EMPTY_VAR}
    outer = dict.fromkeys(map(grad_name, context.output("Out")))
    incoming: dict[str, None] = {}
    for op in block.ops:
        unknown = [name for name in op.input_arg_names if name not in known]
        # an earlier pass may have made gradients of the same names
        incoming.update((n, None) for n in unknown if n in outer or forward._find_var_recursive(n) is None)
        known.update(op.output_arg_names)
    # and those of what it writes, which go through steps that make nothing of them
    incoming.update((name, None) for name in outer if name in made)
    context.emit(
        "while_grad",
        {
            "X": [*context.input("X"), *passed],
            "Out": context.output("Out"),
            "Out@GRAD": list(incoming),
            "StepScopes": context.output("StepScopes"),
        },
        {"X@GRAD": [*wanted, *map(grad_name, passed)]},
        {**context.op.attrs, "sub_block": block, "original_output_grad": list(incoming)},
    )


while_grad = Op(
    "while_grad",
    "X*? Out*? Out@GRAD*? StepScopes -> X@GRAD*?",
    lod=None,
    opaque="its gradients are made by ops of its block, step by step",
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
    totals: dict[str, Any] = {}
    own = [name for _, name in wanted]
    # the last step first: each hands the gradient of what it began with to the one before
    for step in reversed(StepScopes):
        frame = gradient_frame(ctx, step, own, incoming)
        ctx.interpreter.run_block(op.attrs["sub_block"], frame)
        # of a variable of its own, a step knows nothing of the step behind it
        incoming.update((name, frame.values.get(name)) for name in incoming.keys() & results.keys())
        # what the loop only reads counts in every step
        for name in own:
            if name not in incoming:
                totals[name] = added(xp, totals.get(name), frame.values.get(name))
    found: list[Any] = [None] * len(op.output("X@GRAD"))
    for index, name in wanted:
        found[index] = gradient(xp, incoming.get(name, totals.get(name)), X[index], X_lod[index])
    return {"X@GRAD": found}


# ---------------------------------------------------------------------- counters
increment = Op("increment", "X -> Out", attrs={"step": 1.0}, rewinds=True)


@increment.shape
def _(X: Spec) -> Spec:
    # a dimension that is not known counts as -1 in 1.8.5, so that [-1, 1] is refused, and [-1, -1] is not
    if math.prod(map(int, X.shape)) != 1:
        raise ShapeError(f"op 'increment': X must have one element, but has shape {list(X.shape)}")
    return Spec(X.shape, X.dtype)


@increment.kernel
def _(xp: Any, X: Array, step: float) -> Array:
    total: Array = X + xp.asarray(step).astype(X.dtype)
    return total


@increment.grad_rule("X")
def _(context: GradContext) -> None:
    gradients = context.in_grad("X")
    if context.is_floating("X") and gradients != [EMPTY_VAR]:
        context.emit("assign", {"X": context.out_grad("Out")}, {"Out": gradients}, {})
        return
    # back to the value before, which the gradient ops of the body read
    context.emit(
        "increment",
        {"X": context.output("Out")},
        {"Out": context.input("X")},
        {**context.op.attrs, "step": -context.op.attrs["step"]},
    )
