"""Recurrence: a sub-block that runs once for each row of its inputs, with its gradient."""

from __future__ import annotations

from typing import Any

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.registry import BLOCK, EMPTY_VAR, AttrType, GradContext, Op, Spec, grad_name, required
from fluidlite.ops.flow.sub_blocks import (
    SKIPPED,
    added,
    facts_of,
    gradient,
    gradient_frame,
    own_copies,
    snapshot,
    wanted_gradients,
)

_RECURRENT: dict[str, Any] = {
    "sub_block": BLOCK,
    "ex_states": required(AttrType.STRINGS),
    "states": required(AttrType.STRINGS),
    "has_states": False,
    "reverse": False,
    "is_train": True,
    **SKIPPED,
}
recurrent = Op(
    "recurrent",
    "inputs*? initial_states*? parameters*? -> outputs*? step_scopes?",
    attrs=_RECURRENT,
    lod=None,
    frames="step_scopes",
    repeats=True,
)


@recurrent.kernel
def _(
    ctx: Any,
    xp: Any,
    inputs: list[Array],
    initial_states: list[Any],
    ex_states: list[str],
    states: list[str],
    reverse: bool,
) -> dict[str, Any]:
    op = ctx.op
    block = ctx.op.attrs["sub_block"]
    facts = facts_of(op, "parameters")
    if facts.keeps:
        own_copies(ctx, facts.carried)
    frames: dict[int, Any] = {}
    collected: dict[int, list[Any]] = {}
    memory = list(initial_states)
    for step in _order(len(inputs[0]), reverse):
        frame = ctx.frame.child(block, own=frozenset(op.output("outputs")))
        frame.values.update(
            (name, value[step]) for name, value in zip(op.input("inputs"), inputs, strict=True)
        )
        frame.values.update(zip(ex_states, memory, strict=True))
        before = snapshot(ctx, facts.carried) if facts.keeps else {}
        ctx.interpreter.run_block(block, frame)
        memory = [frame.find(name) for name in states]
        # by position: a reversed recurrence comes to the last one first
        collected[step] = [frame.values[name] for name in op.output("outputs")]
        # frames hold every value of a step, so only a gradient is worth their memory
        if facts.keeps:
            frames[step] = frame
        for name, (value, lod) in before.items():
            frame.values[name], frame.lods[name] = value, lod
    outputs = [
        xp.stack([collected[step][index] for step in sorted(collected)])
        for index in range(len(op.output("outputs")))
    ]
    return {"outputs": outputs, "step_scopes": frames}


def _order(count: int, reverse: bool) -> list[int]:
    return list(range(count))[::-1] if reverse else list(range(count))


@recurrent.grad_rule("inputs initial_states parameters")
def _(context: GradContext) -> None:
    slots = ("inputs", "initial_states", "parameters")
    scopes = context.output("step_scopes")
    context.emit(
        "recurrent_grad",
        {
            **{slot: context.input(slot) for slot in slots},
            "outputs": context.output("outputs"),
            "step_scopes": scopes,
            "outputs@GRAD": context.out_grad("outputs"),
            "step_scopes@GRAD": scopes,
        },
        {
            grad_name("inputs"): _once(context.op.input("inputs"), context.in_grad("inputs")),
            **{grad_name(slot): context.in_grad(slot) for slot in slots[1:]},
        },
        {**context.op.attrs, "sub_block": context.grad_block},
    )


def _once(names: list[str], gradients: list[str]) -> list[str]:
    """The gradients of step inputs, of each Variable once: its name in the block stands for all its uses."""
    return [
        EMPTY_VAR if name in names[:at] else gradient
        for at, (name, gradient) in enumerate(zip(names, gradients, strict=True))
    ]


recurrent_grad = Op(
    "recurrent_grad",
    "inputs*? initial_states*? parameters*? outputs*? outputs@GRAD*? step_scopes? "
    "step_scopes@GRAD? -> inputs@GRAD*? initial_states@GRAD*? parameters@GRAD*?",
    attrs=_RECURRENT,
    lod=None,
    opaque="its gradients are made by ops of its block, step by step",
)


@recurrent_grad.kernel
def _(
    ctx: Any,
    xp: Any,
    inputs: list[Array],
    initial_states: list[Any],
    parameters: list[Any],
    doutputs: list[Any],
    step_scopes: dict[int, Any],
    ex_states: list[str],
    states: list[str],
    reverse: bool,
) -> dict[str, Any]:
    op = ctx.op
    given = zip(map(grad_name, op.input("outputs")), doutputs, strict=False)
    outputs = {name: value for name, value in given if value is not None}
    back = _BackwardSteps(ctx, xp, ex_states, states)
    for step in reversed(_order(len(inputs[0]), reverse)):
        back.run(step, step_scopes[step], {name: value[step] for name, value in outputs.items()})
    return {
        "initial_states@GRAD": [
            gradient(xp, made, value, ()) for made, value in zip(back.memory, initial_states, strict=True)
        ],
        "parameters@GRAD": [
            gradient(xp, back.totals.get(grad_name(name)), value, ())
            for name, value in zip(op.input("parameters"), parameters, strict=True)
        ],
        "inputs@GRAD": [
            back.stacked(grad_name(name), value)
            for name, value in zip(op.input("inputs"), inputs, strict=True)
        ],
    }


class _BackwardSteps:
    """The steps of a recurrence, last one first: `memory` holds the gradients of the states that go from one
    step to the step before it, `totals` those of the parameters, added up over the steps.
    """

    def __init__(self, ctx: Any, xp: Any, ex_states: list[str], states: list[str]) -> None:
        self.ctx = ctx
        self.xp = xp
        self.ex_states = list(map(grad_name, ex_states))
        self.states = list(map(grad_name, states))
        self.slices = [name for _, name in wanted_gradients(ctx.op, "inputs")]
        self.shared = [name for _, name in wanted_gradients(ctx.op, "parameters")]
        self.memory: list[Any] = [None] * len(states)
        self.totals: dict[str, Any] = {}
        self.rows: dict[int, dict[str, Any]] = {}

    def run(self, step: int, forward: Any, incoming: dict[str, Any]) -> None:
        """Run the gradient block for a step whose frame was `forward`; `incoming` are its rows of the
        gradients of the outputs.
        """
        for name, value in zip(self.states, self.memory, strict=True):
            incoming[name] = added(self.xp, incoming.get(name), value)
        frame = gradient_frame(self.ctx, forward, [*self.slices, *self.shared, *self.ex_states], incoming)
        self.ctx.interpreter.run_block(self.ctx.op.attrs["sub_block"], frame)
        self.memory = [frame.values.get(name) for name in self.ex_states]
        for name in self.shared:
            self.totals[name] = added(self.xp, self.totals.get(name), frame.values.get(name))
        self.rows[step] = {name: frame.values.get(name) for name in self.slices}

    def stacked(self, name: str, value: Array) -> Any:
        """The gradient of a step input, stacked over the steps; None where it is not needed."""
        if name not in self.slices:
            return None
        found = [self.rows[step][name] for step in sorted(self.rows)]
        return self.xp.stack([self.xp.zeros_like(value[0]) if row is None else row for row in found])


rnn_memory_helper = Op("rnn_memory_helper", "X -> Out", attrs={"dtype": int(VarType.FP32)}, idle=("dtype",))


@rnn_memory_helper.shape
def _(X: Spec) -> Spec:
    return Spec(X.shape, X.dtype)


@rnn_memory_helper.kernel
def _(X: Array) -> Array:
    return X


@rnn_memory_helper.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit(
        "rnn_memory_helper_grad",
        {"X": context.input("X"), "Out": context.output("Out"), "Out@GRAD": context.out_grad("Out")},
        {"X@GRAD": context.in_grad("X")},
    )


rnn_memory_helper_grad = Op(
    "rnn_memory_helper_grad",
    "X? Out? Out@GRAD? -> X@GRAD?",
    attrs={"dtype": int(VarType.FP32)},
    lod=None,
    opaque="it is in the block of a gradient",
)


@rnn_memory_helper_grad.kernel
def _(xp: Any, X: Array, dOut: Array | None) -> Array:
    gradient: Array = xp.zeros_like(X) if dOut is None else dOut
    return gradient
