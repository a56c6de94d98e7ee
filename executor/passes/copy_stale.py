"""Old versions of persistable variables that somebody reads after a newer one was written in their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from fluidlite.executor.plan.actions import Call, Function, Out
from fluidlite.executor.plan.aliases import stale_reads
from fluidlite.executor.plan.plan import Plan, Remark
from fluidlite.executor.plan.steps import Step, substitute
from fluidlite.executor.plan.values import Storage, Value

__all__ = ["copy_stale"]


def copy_stale(plan: Plan) -> Plan:
    """Put a copy in place of each view of a persistable variable that is read after the variable has
    changed.
    """
    # a view of a stale view is stale as well: the copy is taken where the variable's array was first shown
    aliases = (value.first_alias for value in stale_reads(plan.steps, plan.fetches))
    stale = [alias for alias in dict.fromkeys(aliases) if alias is not None]
    if not stale:
        return plan
    copies = {
        view: plan.values.make(view.shape, view.dtype, Storage.BUFFER, name=view.name) for view in stale
    }
    steps = tuple(_with_copies(plan.steps, copies))

    def rebased(view: Value, base: Value) -> Value:
        return replace(view, number=plan.values.number(), base=base)

    steps, fetches = substitute(steps, plan.fetches, copies, rebased)
    remarks = [
        Remark("copied", f"{view.name or view.root.name}: it is read after {view.root.name} has changed")
        for view in stale
    ]
    return replace(plan, steps=steps, fetches=fetches, remarks=(*plan.remarks, *remarks))


def _with_copies(steps: Iterable[Step], copies: dict[Value, Value]) -> Iterator[Step]:
    """The steps, with a copy in place of those that name one of the views."""
    for step in steps:
        if step.body is not None:
            step = replace(step, body=tuple(_with_copies(step.body, copies)))
        if step.is_view and step.writes[0] in copies:
            # the source is the view's base: the view itself is about to be replaced by the copy
            view = step.writes[0]
            assert view.base is not None
            yield from _copied(step, view, view.base, copies[view])
        else:
            yield step


def _copied(step: Step, view: Value, base: Value, copy: Value) -> Iterator[Step]:
    # the view itself is replaced everywhere by the copy, so the copy is made from a twin of it
    twin = replace(view, alias=False)
    yield Step(step.op, step.action, (twin,), (base,))
    yield Step(step.op, Call(Function("copyto"), (Out(copy), twin)))
