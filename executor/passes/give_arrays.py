"""Arrays for values that outlive their step."""

from __future__ import annotations

from dataclasses import replace

from fluidlite.executor.plan.actions import Bound
from fluidlite.executor.plan.objects import Fresh
from fluidlite.executor.plan.plan import Plan
from fluidlite.executor.plan.sizes import about
from fluidlite.executor.plan.steps import flat, substitute
from fluidlite.executor.plan.values import Storage, Value
from fluidlite.values.recycling import RecycledArrays

__all__ = ["give_arrays"]

RECYCLED = 4096  # bytes from which taking an array again is cheaper than a new one


def give_arrays(plan: Plan) -> Plan:
    """Give values that outlive their step an array of their own each time, instead of a place in the pool."""
    held = dict.fromkeys(value.root for step in flat(plan.steps) for value in step.holds)
    fresh = {value: _own(value, plan) for value in held if value.storage is Storage.BUFFER}
    if not fresh:
        return plan

    def rebased(view: Value, base: Value) -> Value:
        return replace(view, number=plan.values.number(), base=base)

    steps, fetches = substitute(plan.steps, plan.fetches, fresh, rebased)
    return replace(plan, steps=steps, fetches=fetches)


def _own(value: Value, plan: Plan) -> Value:
    maker = None
    # new memory is mapped page by page, which costs more than most operations on it
    if about(value.nbytes) >= RECYCLED:
        maker = Bound("array", Fresh(RecycledArrays, (value.shape, value.dtype)))
    return replace(value, number=plan.values.number(), storage=Storage.FRESH, maker=maker)
