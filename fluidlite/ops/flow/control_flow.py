"""Ops that run sub-blocks: loops, branches and recurrences, with their gradients.

A run of a sub-block is a frame (`fluidlite.executor.run.interpreter.Frame`). Where an op's gradient will be
taken, the frames are the value of its StepScopes (Scope, step_scopes); the gradient op runs the gradient
block once for each of them, in a frame of its own that sees the values of that one.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import EnforceNotMet
from fluidlite.base.registry import (
    BLOCK,
    EMPTY_VAR,
    STRINGS,
    AttrType,
    GradContext,
    Lod,
    Op,
    Spec,
    WithLod,
    grad_name,
    required,
    same_as,
)
from fluidlite.ir.operator import Operator
from fluidlite.ir.prune import writes
from fluidlite.ops.tensors.array import entry, number
from fluidlite.values.tensor import LoDTensor, LoDTensorArray, SelectedRows, host

_SKIPPED = {"skip_eager_deletion_vars": STRINGS()}


def is_true(value: Any) -> bool:
    """The truth of a tensor with one element."""
    return bool(host(value).reshape(-1)[0])


def added(xp: Any, a: Any, b: Any) -> Any:
    """The sum of two gradients of the same variable: dense, selected rows or arrays; None is zero."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, LoDTensorArray):
        return _added_arrays(a, b)
    if isinstance(a, SelectedRows) and isinstance(b, SelectedRows):
        return SelectedRows(xp.concatenate((a.ids, b.ids)), a.height(), xp.concatenate((a.array, b.array)))
    return (a.dense(xp) if isinstance(a, SelectedRows) else a) + (
        b.dense(xp) if isinstance(b, SelectedRows) else b
    )


def _added_arrays(a: LoDTensorArray, b: LoDTensorArray) -> LoDTensorArray:
    total = LoDTensorArray(a)
    total.extend(b[len(a) :])
    for index, (left, right) in enumerate(zip(a, b, strict=False)):
        if right.array is not None:
            total[index] = right if left.array is None else LoDTensor(left.array + right.array, left._lod)
    return total


def zeros_of(xp: Any, value: Any) -> Any:
    """A gradient of zeros for `value`; None where it can have none."""
    if isinstance(value, LoDTensorArray):
        return LoDTensorArray(
            item if item.array is None else LoDTensor(xp.zeros_like(item.array), item._lod) for item in value
        )
    return xp.zeros_like(value) if hasattr(value, "dtype") and hasattr(value, "shape") else None


def _gradient(xp: Any, made: Any, value: Any, lod: Lod) -> Any:
    """The gradient of `value`, zeros where none was made, with the level of detail of `value`."""
    made = made if made is not None else zeros_of(xp, value)
    return made if made is None or isinstance(made, (LoDTensorArray, SelectedRows)) else WithLod(made, lod)


# ---------------------------------------------------------------------- runs of sub-blocks
class Facts(NamedTuple):
    """What a control-flow op needs to know about its sub-block, found once for each version of the
    program.
    """

    version: tuple[int, int]
    writes: frozenset[str]
    """Outer and inner variables that the sub-block's ops write."""
    carried: tuple[str, ...]
    """Inputs that the sub-block or a later op replaces. What one op both reads and writes, such as a counter,
    is not among them: its gradient op undoes the change.
    """
    keeps: bool
    """Whether a gradient op reads the frames."""


_facts: weakref.WeakKeyDictionary[Operator, Facts] = weakref.WeakKeyDictionary()


def facts_of(op: Operator, inputs: str, scopes: str) -> Facts:
    """The facts of a control-flow op; `inputs` and `scopes` are the slots of its outer variables and of
    its frames.
    """
    program = op.block.program
    known = _facts.get(op)
    if known is not None and known.version == (program.serial, program.version):
        return known
    body = op.attrs["sub_block"]
    written = frozenset(name for inner in body.ops for name in writes(inner))
    later = op.block.ops[op.idx + 1 :]
    in_place = {
        name
        for inner in (*body.ops, *later)
        for name in inner.input_arg_names
        if name in inner.output_arg_names
    }
    replaced = written.union(*(other.output_arg_names for other in later))
    frames = set(op.output(scopes))
    keeps = any(
        not frames.isdisjoint(other.input_arg_names) for block in program.blocks for other in block.ops
    )
    carried = tuple(name for name in op.input(inputs) if name in replaced and name not in in_place)
    _facts[op] = Facts(
        (program.serial, program.version), written, carried, keeps and not op.attrs.get("is_test")
    )
    return _facts[op]


def _copied(value: Any) -> Any:
    return value.copy() if hasattr(value, "dtype") and hasattr(value, "copy") else value


def _own_copies(ctx: Any, names: Iterable[str]) -> None:
    """Copy variables that the sub-block replaces: frames that are kept may show the memory of the old
    values.
    """
    for name in names:
        var = ctx.op.block._find_var_recursive(name)
        if var is None or not var.persistable:
            ctx.frame.set(name, _copied(ctx.frame.find(name)), ctx.frame.lod(name))


def _snapshot(ctx: Any, names: Iterable[str]) -> dict[str, tuple[Any, Any]]:
    """Value and level of detail of each variable; arrays are left out, their entries are not replaced."""
    found = {}
    for name in names:
        value, var = ctx.frame.find(name), ctx.op.block._find_var_recursive(name)
        if value is not None and not isinstance(value, LoDTensorArray):
            found[name] = (
                _copied(value) if var is not None and var.persistable else value,
                ctx.frame.lod(name),
            )
    return found


def _gradient_frame(ctx: Any, step: Any, own: Iterable[str], values: Mapping[str, Any]) -> Any:
    """A frame for the gradient block of one step; `own` are gradients that stay in it, `values` those that
    it starts with.
    """
    frame = ctx.frame.child(ctx.op.attrs["sub_block"], step, frozenset(own) | frozenset(values))
    frame.values.update((name, value) for name, value in values.items() if value is not None)
    return frame


def wanted_gradients(op: Operator, slot: str) -> list[tuple[int, str]]:
    """Positions of the variables in `slot` whose gradient is wanted, with its name inside the sub-block."""
    return [
        (index, grad_name(name))
        for index, (name, gradient) in enumerate(
            zip(op.input(slot), op.output(grad_name(slot)), strict=False)
        )
        if gradient != EMPTY_VAR
    ]


# ---------------------------------------------------------------------- while
while_op = Op(
    "while",
    "X*? Condition* -> Out*? StepScopes?",
    lod=None,
    updates=("Out",),
    attrs={"sub_block": BLOCK, "is_test": False, **_SKIPPED},
)


@while_op.kernel
def _(ctx: Any) -> dict[str, Any]:
    op, body, facts = ctx.op, ctx.op.attrs["sub_block"], facts_of(ctx.op, "X", "StepScopes")
    condition = op.input("Condition")[0]
    if facts.keeps:
        _own_copies(ctx, facts.carried)
    steps: list[Any] = []
    while is_true(ctx.frame.find(condition)):
        if condition not in facts.writes:
            raise EnforceNotMet(
                f"op 'while': the loop's body never writes its condition {condition!r}, so it would run for "
                f"ever"
                f"\n  built at {op.where}"
            )
        before = _snapshot(ctx, facts.carried) if facts.keeps else {}
        step = ctx.frame.child(body)
        ctx.interpreter.run_block(body, step)
        if facts.keeps:
            steps.append(step)
        for name, (value, lod) in before.items():
            step.values[name], step.lods[name] = value, lod
    return {"StepScopes": steps}


@while_op.grad_rule("X")
def _(context: GradContext) -> None:
    block, forward = context.grad_block, context.op.attrs["sub_block"]
    made = {name for op in block.ops for name in op.output_arg_names}
    wanted = [name if name in made else EMPTY_VAR for name in context.in_grad("X")]
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
    attrs={"sub_block": BLOCK, "is_test": False, "original_output_grad": STRINGS(), **_SKIPPED},
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
    op, wanted = ctx.op, wanted_gradients(ctx.op, "X")
    results = dict(zip(map(grad_name, op.input("Out")), Out, strict=True))
    incoming = {
        name: value if value is not None else zeros_of(xp, results.get(name))
        for name, value in zip(original_output_grad, dOut, strict=True)
    }
    loop = _LoopGradient(xp, incoming, replaced_names(op.attrs["sub_block"]))
    inside = dict(zip(op.input("Out@GRAD"), original_output_grad, strict=True))
    carried = {name for index, name in wanted if inside.get(op.output("X@GRAD")[index]) == name}
    for step in reversed(StepScopes):
        frame = _gradient_frame(ctx, step, [name for _, name in wanted], loop.incoming)
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
        found[index] = _gradient(xp, made, X[index], X_lod[index])
    return {"X@GRAD": found}


def replaced_names(grad_block: Any) -> set[str]:
    """Gradients of what the forward block writes in every step, branches apart."""
    forward = grad_block.program.blocks[grad_block.forward_block_idx]
    return {grad_name(name) for op in forward.ops if not op.sub_blocks() for name in op.output_arg_names}


class _LoopGradient:
    """The gradients that go from one step of a loop to the step before it, and those that add up over all
    steps.
    """

    def __init__(self, xp: Any, incoming: dict[str, Any], replaced: set[str]) -> None:
        self.xp, self.replaced = xp, replaced
        self.incoming, self.first = incoming, dict(incoming)
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
            elif (
                inner is not None and name in self.replaced
            ):  # not read: only what the last step wrote counts
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
    new, old = new or LoDTensorArray(), old or LoDTensorArray()
    return LoDTensorArray(
        new[index] if entry(new, index) is not None or index >= len(old) else old[index]
        for index in range(max(len(new), len(old)))
    )


def changed(outer: LoDTensorArray | None, inner: LoDTensorArray) -> LoDTensorArray:
    """The entries of `inner` that are not simply those of `outer`."""
    return LoDTensorArray(
        LoDTensor() if index < len(outer or ()) and (outer or ())[index] is item else item
        for index, item in enumerate(inner)
    )


# ---------------------------------------------------------------------- conditional_block
def has_elements(values: list[Any]) -> bool:
    """Whether all values are there, and none is an array without elements."""
    return all(value is not None and getattr(value, "size", 1) != 0 for value in values)


def _taken(op: Operator, Cond: list[Any], Input: list[Any]) -> bool:
    """Whether the branch runs: a scalar condition must hold, else every input must have elements."""
    if op.attrs["is_scalar_condition"]:
        return is_true(Cond[0])
    return has_elements(Input)


def _declare_branch(type: str) -> Op:
    op = Op(
        type,
        "Cond* Input*? -> Out*? Scope?",
        lod=None,
        updates=("Out",),
        attrs={"sub_block": BLOCK, "is_scalar_condition": False, **_SKIPPED},
    )

    @op.kernel
    def _(ctx: Any, Cond: list[Any], Input: list[Any]) -> dict[str, Any]:
        if not _taken(ctx.op, Cond, Input):
            return {}
        facts = facts_of(ctx.op, "Input", "Scope")
        if facts.keeps:
            _own_copies(ctx, facts.carried)
        before = _snapshot(ctx, facts.carried) if facts.keeps else {}
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
    context.emit(
        "conditional_block_grad",
        {
            "Cond": context.input("Cond"),
            "Input": context.input("Input"),
            "Out": context.output("Out"),
            "Out@GRAD": context.out_grad("Out"),
            "Scope": context.output("Scope"),
        },
        {"Input@GRAD": context.in_grad("Input")},
        {"sub_block": context.grad_block, "is_scalar_condition": context.op.attrs["is_scalar_condition"]},
    )


conditional_block_grad = Op(
    "conditional_block_grad",
    "Cond* Input*? Out*? Out@GRAD*? Scope? -> Input@GRAD*?",
    lod=None,
    attrs={"sub_block": BLOCK, "is_scalar_condition": False},
)


@conditional_block_grad.kernel
def _(
    ctx: Any, xp: Any, Cond: list[Any], Input: list[Any], Input_lod: list[Lod], dOut: list[Any], Scope: Any
) -> dict[str, Any]:
    op, wanted = ctx.op, wanted_gradients(ctx.op, "Input")
    incoming = dict(zip(map(grad_name, op.input("Out")), dOut, strict=False))
    frame = _gradient_frame(ctx, Scope, [name for _, name in wanted], incoming)
    runs = Scope is not None and _taken(op, Cond, Input)
    if runs:
        ctx.interpreter.run_block(op.attrs["sub_block"], frame)
    found: list[Any] = [None] * len(op.output("Input@GRAD"))
    for index, name in wanted:
        made = frame.values.get(name) if runs or name in incoming else None
        found[index] = _gradient(xp, made, Input[index], Input_lod[index])
    return {"Input@GRAD": found}


# ---------------------------------------------------------------------- choosing among variables
select_input = Op("select_input", "X*? Mask -> Out", lod=None, dynamic=True)
select_output = Op("select_output", "X? Mask -> Out*", lod=None, dynamic=True)


@select_input.shape
def _(X: list[Spec]) -> Spec:
    return X[0]


@select_input.kernel
def _(ctx: Any, X: list[Any], Mask: Array) -> Any:
    branch = number(Mask)
    if not 0 <= branch < len(X) or X[branch] is None:
        raise EnforceNotMet(
            f"op 'select_input': Mask says {branch}, but X has {len(X)} inputs"
            + (" and that one was not computed" if 0 <= branch < len(X) else "")
        )
    return X[branch]


@select_input.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit(
        "select_output",
        {"X": context.out_grad("Out"), "Mask": context.input("Mask")},
        {"Out": context.in_grad("X")},
    )


@select_output.kernel
def _(ctx: Any, X: Any, Mask: Array) -> dict[str, list[Any]]:
    branch, count = number(Mask), len(ctx.op.output("Out"))
    if not 0 <= branch < count:
        raise EnforceNotMet(f"op 'select_output': Mask says {branch}, but Out has {count} outputs")
    return {"Out": [X if index == branch else None for index in range(count)]}


@select_output.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit(
        "select_input",
        {"X": context.out_grad("Out"), "Mask": context.input("Mask")},
        {"Out": context.in_grad("X")},
    )


# ---------------------------------------------------------------------- recurrent
_RECURRENT: dict[str, Any] = {
    "sub_block": BLOCK,
    "ex_states": required(AttrType.STRINGS),
    "states": required(AttrType.STRINGS),
    "has_states": False,
    "reverse": False,
    "is_train": True,
    **_SKIPPED,
}
recurrent = Op(
    "recurrent",
    "inputs*? initial_states*? parameters*? -> outputs*? step_scopes?",
    attrs=_RECURRENT,
    lod=None,
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
    op, block = ctx.op, ctx.op.attrs["sub_block"]
    keeps = facts_of(op, "inputs", "step_scopes").keeps
    frames: dict[int, Any] = {}
    collected: dict[int, list[Any]] = {}
    memory = list(initial_states)
    for step in _order(len(inputs[0]), reverse):
        frame = ctx.frame.child(block, own=frozenset(op.output("outputs")))
        frame.values.update(
            (name, value[step]) for name, value in zip(op.input("inputs"), inputs, strict=True)
        )
        frame.values.update(zip(ex_states, memory, strict=True))
        ctx.interpreter.run_block(block, frame)
        memory = [frame.find(name) for name in states]
        collected[step] = [frame.values[name] for name in op.output("outputs")]
        if keeps:
            frames[step] = frame
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
        {grad_name(slot): context.in_grad(slot) for slot in slots},
        {**context.op.attrs, "sub_block": context.grad_block},
    )


recurrent_grad = Op(
    "recurrent_grad",
    "inputs*? initial_states*? parameters*? outputs*? outputs@GRAD*? step_scopes? "
    "step_scopes@GRAD? -> inputs@GRAD*? initial_states@GRAD*? parameters@GRAD*?",
    attrs=_RECURRENT,
    lod=None,
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
    op, rows = ctx.op, dict[int, dict[str, Any]]()
    slices, shared = (
        [name for _, name in wanted_gradients(op, "inputs")],
        [name for _, name in wanted_gradients(op, "parameters")],
    )
    own = [*slices, *shared, *map(grad_name, ex_states)]
    outputs = [
        (grad_name(name), value)
        for name, value in zip(op.input("outputs"), doutputs, strict=False)
        if value is not None
    ]
    memory: list[Any] = [None] * len(states)
    totals: dict[str, Any] = {}
    for step in reversed(_order(len(inputs[0]), reverse)):
        incoming = {name: value[step] for name, value in outputs}
        for name, value in zip(map(grad_name, states), memory, strict=True):
            incoming[name] = added(xp, incoming.get(name), value)
        frame = _gradient_frame(ctx, step_scopes[step], own, incoming)
        ctx.interpreter.run_block(op.attrs["sub_block"], frame)
        memory = [frame.values.get(grad_name(name)) for name in ex_states]
        totals.update((name, added(xp, totals.get(name), frame.values.get(name))) for name in shared)
        rows[step] = {name: frame.values.get(name) for name in slices}
    return {
        "initial_states@GRAD": [
            _gradient(xp, *pair, ()) for pair in zip(memory, initial_states, strict=True)
        ],
        "parameters@GRAD": [
            _gradient(xp, totals.get(grad_name(name)), value, ())
            for name, value in zip(op.input("parameters"), parameters, strict=True)
        ],
        "inputs@GRAD": [
            _stacked(xp, grad_name(name), value, rows) if grad_name(name) in slices else None
            for name, value in zip(op.input("inputs"), inputs, strict=True)
        ],
    }


def _stacked(xp: Any, name: str, value: Array, rows: Mapping[int, Mapping[str, Any]]) -> Any:
    """The gradients of a step input, all steps on top of each other."""
    found = [rows[step][name] for step in sorted(rows)]
    return xp.stack([xp.zeros_like(value[0]) if row is None else row for row in found])


rnn_memory_helper = Op("rnn_memory_helper", "X -> Out", attrs={"dtype": int(VarType.FP32)})


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
    "rnn_memory_helper_grad", "X? Out? Out@GRAD? -> X@GRAD?", attrs={"dtype": int(VarType.FP32)}, lod=None
)


@rnn_memory_helper_grad.kernel
def _(xp: Any, X: Array, dOut: Array | None) -> Array:
    gradient: Array = xp.zeros_like(X) if dOut is None else dOut
    return gradient


# ---------------------------------------------------------------------- small ones
increment = Op("increment", "X -> Out", attrs={"step": 1.0})
increment.shape(same_as("X"))


@increment.kernel
def _(xp: Any, X: Array, step: float) -> Array:
    total: Array = X + xp.asarray(step).astype(X.dtype)
    return total


@increment.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit(
        "increment",
        {"X": context.output("Out")},
        {"Out": context.input("X")},
        {**context.op.attrs, "step": -context.op.attrs["step"]},
    )  # the counter goes back to where it was


is_empty = Op("is_empty", "X -> Out", lod=None)


@is_empty.shape
def _(X: Spec) -> Spec:
    return Spec((1,), VarType.BOOL)


@is_empty.kernel
def _(xp: Any, X: Array) -> Array:
    empty: Array = xp.array([X.size == 0])
    return empty


delete_var = Op("delete_var", "X* ->", effect=True, lod=None)


@delete_var.kernel
def _(ctx: Any) -> dict[str, Any]:
    ctx.scope.erase(ctx.op.input("X"))
    for name in ctx.op.input("X"):
        ctx.frame.values.pop(name, None)
    return {}


get_places = Op("get_places", "-> Out", attrs={"device_count": 0, "device_type": "AUTO"}, lod=None)


@get_places.shape
def _() -> Spec:
    return Spec((), VarType.FP32, 0, VarType.PLACE_LIST)


@get_places.kernel
def _(ctx: Any, device_count: int) -> list[Any]:
    return [ctx.place] * max(device_count, 1)
