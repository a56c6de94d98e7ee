"""Masks of relu from what relu was given, where that is kept anyway."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from fluidlite.executor.plan.actions import Elementwise
from fluidlite.executor.plan.plan import Plan
from fluidlite.executor.plan.steps import Step, in_bodies, least_of
from fluidlite.executor.plan.values import Storage, Value

__all__ = ["share_masks"]


def share_masks(plan: Plan) -> Plan:
    """Let `maximum(x, 0) > 0` be `x > 0` where x is read later than that: of a chain of tanh and relu one
    array a layer is kept for the way back instead of two.
    """
    return replace(plan, steps=in_bodies(plan.steps, plan.fetches, _shared))


def _shared(steps: Sequence[Step], kept: Sequence[Value]) -> list[Step]:
    if not any(isinstance(step.action, Elementwise) and step.action.function == "gt" for step in steps):
        return list(steps)
    writers = Counter(value.root for step in steps for value in step.all_writes())
    last = {value.root: number for number, step in enumerate(steps) for value in step.all_reads()}
    sources: dict[Value, Value] = {}
    result = []
    for number, step in enumerate(steps):
        action = step.action
        if isinstance(action, Elementwise):
            first = action.operands[0]
            limited = least_of(action)
            if limited is not None and limited[1] == 0 and _is_kept(limited[0], writers):
                sources[step.writes[0]] = limited[0]
            elif action.function == "gt" and first in sources and action.operands[1] == 0:
                source = sources[first]
                if writers[first.root] == 1 and last[source.root] > number:
                    step = replace(step, action=replace(action, operands=(source, 0)), reads=())
        result.append(step)
    return result


def _is_kept(value: Value, writers: Counter[Value]) -> bool:
    """True for an array of its own that is written once."""
    return value.base is None and value.storage is Storage.BUFFER and writers[value] == 1
