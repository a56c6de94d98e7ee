"""Branches: a block that runs under a condition, and variables chosen by a mask."""

from __future__ import annotations

from typing import Any

from fluidlite.base.dtypes import Array, VarType, to_numpy
from fluidlite.base.errors import EnforceNotMet
from fluidlite.base.gradient_names import variable_of
from fluidlite.base.registry import BLOCK, GradContext, Lod, Op, Spec, grad_name, handed_on
from fluidlite.ir.operator import Operator
from fluidlite.ops.flow.sub_blocks import (
    SKIPPED,
    facts_of,
    gradient,
    gradient_frame,
    has_elements,
    is_array,
    is_true,
    own_copies,
    replaced_unread,
    snapshot,
    wanted_gradients,
    zeros_of,
)
from fluidlite.ops.tensors.array import number


def _taken(op: Operator, Cond: list[Any], Input: list[Any]) -> bool:
    """True if the branch runs: a scalar condition must hold, else every input must have elements."""
    if op.attrs["is_scalar_condition"]:
        return is_true(Cond[0])
    return has_elements(Input)


def _declare_branch(type: str) -> Op:
    op = Op(
        type,
        "Cond* Input*? -> Out*? Scope?",
        lod=None,
        updates=("Out",),
        frames="Scope",
        attrs={"sub_block": BLOCK, "is_scalar_condition": False, **SKIPPED},
    )

    @op.kernel
    def _(ctx: Any, Cond: list[Any], Input: list[Any]) -> dict[str, Any]:
        if not _taken(ctx.op, Cond, Input):
            return {}
        facts = facts_of(ctx.op, "Input")
        if facts.keeps:
            own_copies(ctx, facts.carried)
        before = snapshot(ctx, facts.carried) if facts.keeps else {}
        frame = ctx.frame.child(ctx.op.attrs["sub_block"])
        ctx.interpreter.run_block(ctx.op.attrs["sub_block"], frame)
        for name, (value, lod) in before.items():
            frame.values[name], frame.lods[name] = value, lod
        return {"Scope": frame} if facts.keeps else {}

    return op


conditional_block = _declare_branch("conditional_block")
conditional_block_infer = _declare_branch("conditional_block_infer")


@conditional_block.grad_rule("Input")
def _(context: GradContext) -> None:
    made = {name for op in context.grad_block.ops for name in op.output_arg_names}
    passed = replaced_unread(context, "Input", made)
    context.emit(
        "conditional_block_grad",
        {
            "Cond": context.input("Cond"),
            "Input": [*context.input("Input"), *passed],
            "Out": context.output("Out"),
            "Out@GRAD": context.out_grad("Out"),
            "Scope": context.output("Scope"),
        },
        {"Input@GRAD": [*context.in_grad("Input"), *map(grad_name, passed)]},
        {"sub_block": context.grad_block, "is_scalar_condition": context.op.attrs["is_scalar_condition"]},
    )


conditional_block_grad = Op(
    "conditional_block_grad",
    "Cond* Input*? Out*? Out@GRAD*? Scope? -> Input@GRAD*?",
    lod=None,
    opaque="its gradients are made by ops of its block, step by step",
    attrs={"sub_block": BLOCK, "is_scalar_condition": False},
)


@conditional_block_grad.kernel
def _(
    ctx: Any, xp: Any, Input: list[Any], Input_lod: list[Lod], Out: list[Any], dOut: list[Any], Scope: Any
) -> dict[str, Any]:
    op = ctx.op
    wanted = wanted_gradients(ctx.op, "Input")
    incoming = dict(zip(map(grad_name, op.input("Out")), dOut, strict=False))
    # only a branch that ran has left a frame; its condition may hold something else by now
    runs = Scope is not None
    if runs:
        # nothing reads what the branch wrote to such a variable, but its gradient ops ask for a gradient
        results = dict(zip(incoming, Out, strict=False))
        incoming.update(
            (name, zeros_of(xp, results[name])) for name, made in incoming.items() if made is None
        )
    frame = gradient_frame(ctx, Scope, [name for _, name in wanted], incoming)
    if runs:
        ctx.interpreter.run_block(op.attrs["sub_block"], frame)
    found: list[Any] = [None] * len(op.output("Input@GRAD"))
    for index, name in wanted:
        # where the branch did not run, what came in goes on unchanged
        made = frame.values.get(name) if runs or name in incoming else None
        found[index] = gradient(xp, made, Input[index], Input_lod[index])
    return {"Input@GRAD": found}


# ---------------------------------------------------------------------- choosing among variables
select_input = Op("select_input", "X*? Mask -> Out", lod=None, dynamic=True, booleans=True)
select_output = Op("select_output", "X? Mask -> Out*", lod=None, dynamic=True, booleans=True)


@select_input.shape
def _(X: list[Spec]) -> Spec:
    first, *others = X
    if any(len(spec.shape) != len(first.shape) for spec in others):
        return first
    # a dimension in which the branches differ is known by the run alone
    sizes = zip(*(spec.shape for spec in X), strict=True)
    return first.with_shape([found[0] if len(set(found)) == 1 else -1 for found in sizes])


@select_input.kernel
def _(X: list[Any], X_lod: list[Lod], Mask: Array) -> Any:
    branch = number(Mask)
    if not 0 <= branch < len(X) or X[branch] is None:
        raise EnforceNotMet(
            f"op 'select_input': Mask says {branch}, but X has {len(X)} inputs"
            + (" and that one was not computed" if 0 <= branch < len(X) else "")
        )
    return handed_on(X[branch], X_lod[branch])


@select_input.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit(
        "select_output",
        {"X": context.out_grad("Out"), "Mask": context.input("Mask")},
        {"Out": context.in_grad("X")},
    )


@select_output.kernel
def _(ctx: Any, X: Any, X_lod: Lod, Mask: Array) -> dict[str, list[Any]]:
    branch = number(Mask)
    count = len(ctx.op.output("Out"))
    if not 0 <= branch < count:
        raise EnforceNotMet(f"op 'select_output': Mask says {branch}, but Out has {count} outputs")
    wanted = routed_dtypes(ctx.op)[branch]
    if wanted is not None and is_array(X) and X.dtype != wanted:
        X = X.astype(wanted)
    return {"Out": [handed_on(X, X_lod) if index == branch else None for index in range(count)]}


def routed_dtypes(op: Operator) -> list[Any]:
    """For each output of a `select_output` that is a gradient the dtype of its variable, else None: branches
    may give values of two dtypes, and the gradient of what was chosen comes in one.
    """
    dtypes: list[Any] = []
    for name in op.output("Out"):
        var = op.block._find_var_recursive(name)
        dtype: Any = None
        if var is not None and var._dtype is not None and variable_of(name) != name:
            dtype = to_numpy(var.dtype)
        dtypes.append(dtype)
    return dtypes


@select_output.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit(
        "select_input",
        {"X": context.out_grad("Out"), "Mask": context.input("Mask")},
        {"Out": context.in_grad("X")},
    )


# ---------------------------------------------------------------------- conditions
is_empty = Op("is_empty", "X -> Out", lod=None)


@is_empty.shape
def _(X: Spec) -> Spec:
    return Spec((1,), VarType.BOOL)


@is_empty.kernel
def _(xp: Any, X: Array) -> Array:
    empty: Array = xp.array([X.size == 0])
    return empty
