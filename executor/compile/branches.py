"""Branches: an `if` in the source, or, on a device, a choice that the device makes.

An `if` reads its condition on the host, which no graph can. What a branch without effects computes, such as
the scale of a mixed-precision loss or a step of a learning rate, costs less than that: its steps run always,
on copies, and the condition chooses between what they leave and what was there. Of large states, such as all
parameters that are updated every few steps, copies would cost more than they save.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fluidlite.base.registry import EMPTY_VAR
from fluidlite.executor.compile.blocks import Body, assignment, block_writer, kept_names, merge_all, taken
from fluidlite.executor.compile.builder import CannotInline, PlanBuilder
from fluidlite.executor.compile.emitter import CannotLower, Emitter
from fluidlite.executor.compile.lowering.device_rows import change_rows, kept_rows
from fluidlite.executor.compile.saved import SavedForBackward
from fluidlite.executor.plan.actions import Action, Assign, Bound, Branch, Call, Elementwise, Function
from fluidlite.executor.plan.objects import Fresh
from fluidlite.executor.plan.steps import Step
from fluidlite.executor.plan.values import Storage, Value
from fluidlite.ir.buffer_order import ops_to_run
from fluidlite.ir.operator import Operator
from fluidlite.ir.prune import writes
from fluidlite.ops.flow.sub_blocks import facts_of

__all__: list[str] = []

_CHOICE = "where(condition, new, old)"
# Bytes of states that a choice may replace. An update passes over them some seven times, which takes 0.5 ms
# at 1 TB/s: what the host needs to read a condition and launch some fifty kernels. A model of larger states
# computes for longer than its kernels take to launch.
_LARGEST = 64 << 20


@block_writer("conditional_block", "conditional_block_infer")
def _(builder: PlanBuilder, op: Operator) -> bool:
    facts = facts_of(op, "Input")
    if not builder.target.on_host and not facts.keeps and _chosen(builder, op):
        return True
    names, old = kept_names(builder, op, facts.carried, "Scope") if facts.keeps else ([], [])
    condition = taken(builder, op)
    body = Body(builder, op)
    with body.entered(names):
        builder.lower(ops_to_run(body.block))
    merge_all(body)
    if facts.keeps:
        builder.save_for_backward(op.output("Scope")[0], _saved_of_branch(body, names, old))
    body.write(Branch((condition,)))
    return True


def _saved_of_branch(body: Body, names: Iterable[str], old: Iterable[str]) -> SavedForBackward:
    ran = body.start(False)
    body.add(Assign((ran,), (True,)))
    before = {name: body.builder.newest(name) for name in old}

    def held(value: Value) -> Value:
        # None where the branch did not run; then its gradient does not run either
        symbol = body.alike(value)
        body.before.append(assignment(body.builder, body.op, symbol, None))
        body.steps.append(assignment(body.builder, body.op, symbol, value))
        return symbol

    return body.fill(SavedForBackward(body.op, ran), names, before, held)


# ---------------------------------------------------------------------- choices of a device
def _chosen(builder: PlanBuilder, op: Operator) -> bool:
    """Write a branch as a choice; False, with nothing written, where it has to be an `if`."""
    body = Body(builder, op)
    written = [name for name in sorted(writes(op)) if name != EMPTY_VAR and not body.hides(name)]
    if _state_bytes(builder, written) > _LARGEST:
        return False
    # inside, a persistable variable is like any other: the choice alone writes to its array
    body.level.detached = builder.level.detached | set(written)
    emitter = Emitter(builder, op)
    try:
        condition = _condition(emitter)
        with body.entered(written):
            builder.lower(ops_to_run(body.block))
        if not all(map(_only_computes, body.steps)):
            return False
        changed = {name: body.env[name] for name in written if _is_changed(body, name)}
        keys = [("rows", value) for value in changed.values()]
        builder.level.memory.update({key: body.level.memory[key] for key in keys if key in body.level.memory})
        found = {name: _choice(emitter, name, condition, value) for name, value in changed.items()}
    except (CannotInline, CannotLower):
        return False
    builder.level.steps += [*body.steps, *emitter.steps]
    builder.level.env.update(found)
    return True


def _state_bytes(builder: PlanBuilder, names: Iterable[str]) -> int:
    """The bytes of those variables that outlive a run."""
    states = [builder.held(name) for name in names if builder.is_persistable(name)]
    return sum(int(state.nbytes) for state in states if state is not None)


def _condition(e: Emitter) -> Value:
    """The boolean that the branch depends on, without dimensions."""
    if not e.op.attrs.get("is_scalar_condition"):
        raise CannotLower("it tests elements")
    condition = e.need("Cond")
    if condition.size != 1 or condition.dtype != np.bool_:
        raise CannotLower("its condition is not a boolean")
    return e.reshape(condition, ())


def _only_computes(step: Step) -> bool:
    """True if a step may run whether its branch is taken or not."""
    if step.effect or step.body is not None:
        return False
    action = step.action
    is_array_call = isinstance(action, Call) and isinstance(action.callee, Function)
    return step.is_view or isinstance(action, Elementwise) or is_array_call or _is_declared(action)


def _is_declared(action: Action) -> bool:
    """True if the value comes from an object that is declared to do nothing else."""
    match action:
        case Assign(sources=(Call(callee=Bound(thing=Fresh(kind=kind))),)):
            return kind.only_computes
    return False


def _is_changed(body: Body, name: str) -> bool:
    """True if the branch gives a variable a value that something behind it may read."""
    builder = body.builder
    if not builder.is_needed(name, body.op):
        return False
    new = body.env.get(name)
    return new is not None and new is not builder.newest(name) and not _is_held(new, name)


def _is_held(value: Value, name: str) -> bool:
    """True if a value is a persistable variable's own array as it was before."""
    return value.storage is Storage.PARAM and value.name == name


def _choice(e: Emitter, name: str, condition: Value, new: Value) -> Value:
    """`new` where the condition holds, else what the variable is without the branch."""
    builder = e.builder
    held = builder.held(name)
    old = builder.newest(name)
    if old is None and held is not None:
        old = builder.param(name, held)
    if old is not None and kept_rows(e, old) and kept_rows(e, new):
        rows = builder.values.local(name=name)
        if not change_rows(e, _CHOICE, rows, {"old": old, "new": new}, condition=condition):
            raise CannotLower("it writes rows with different ids")
        return rows
    is_elsewhere = held is None and builder.is_persistable(name)
    if is_elsewhere or old is None or not (old.known and new.known) or old.has_lod or new.has_lod:
        raise CannotLower("it writes something other than one array")
    assert old.shape is not None
    if old.shape != new.shape or old.dtype != new.dtype or old.order or new.order:
        raise CannotLower("it writes an array of another kind")
    out = builder.param(name, held) if builder.is_persistable(name) else e.temp(old.shape, old.dtype)
    out.named(name)
    e.elementwise(_CHOICE, out, condition=condition, new=new, old=old)
    return out
