"""Dead steps: those whose results nobody reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fluidlite.executor.plan.plan import Plan, Remark
from fluidlite.executor.plan.steps import Step, flat
from fluidlite.executor.plan.values import Storage, Value

__all__ = ["drop_dead"]


def drop_dead(plan: Plan) -> Plan:
    """Leave out steps whose results nobody reads: not a later step, not a fetch, not a persistable
    variable.
    """
    needed: set[Value] = set()
    for value in plan.fetches:
        _need(value, needed)
    steps = tuple(_sweep(plan.steps, needed))
    return replace(plan, steps=steps, remarks=(*plan.remarks, *_remarks(plan.steps, steps)))


def _remarks(before: Sequence[Step], after: Sequence[Step]) -> list[Remark]:
    """A line for each op of which steps were dropped."""
    stays = {id(step) for step in flat(after)}
    dropped: dict[str, list[str]] = {}
    for step in flat(before):
        # a loop that stays is another object than before, with a smaller body; and loops are never dropped
        if step.body is None and not step.is_view and id(step) not in stays and step.op is not None:
            names = [value.name for value in step.writes if value.name]
            dropped.setdefault(step.op.type, []).extend(names)
    return [
        Remark("dropped", f"{kind}: nobody reads {', '.join(dict.fromkeys(names)) or 'its temporaries'}")
        for kind, names in dropped.items()
    ]


def _sweep(steps: Sequence[Step], needed: set[Value]) -> list[Step]:
    """The steps that `needed` values depend on; the set grows by what those steps read."""
    result: list[Step] = []
    # backwards: when a step is looked at, everything that may read its results has been
    for step in reversed(steps):
        if step.body is not None:
            for value in step.reads:
                _need(value, needed)
            # loops stay even where nothing reads their results: their condition may never come true, as in
            # the interpreter
            step = replace(step, body=tuple(_sweep_again(step.body, needed)))
        elif not _stays(step, needed):
            continue
        result.append(step)
        for value in step.reads:
            _need(value, needed)
    return result[::-1]


def _stays(step: Step, needed: set[Value]) -> bool:
    """True if a step has an effect, or writes what somebody needs."""
    if step.is_view:
        return step.writes[0] in needed
    if step.effect:
        return True
    # by root: what was needed may be another view of the same memory
    return any(value.root in needed or value.root.storage is Storage.PARAM for value in step.writes)


def _sweep_again(body: Sequence[Step], needed: set[Value]) -> list[Step]:
    """A body swept until nothing new is needed: what one step of a loop reads, the step before may have to
    leave.
    """
    while True:
        before = len(needed)
        result = _sweep(body, needed)
        if len(needed) == before:
            return result


def _need(value: Value, needed: set[Value]) -> None:
    """`value` is needed, and so is everything that it is a view of."""
    needed.add(value)
    while value.base is not None:
        value = value.base
        needed.add(value)
