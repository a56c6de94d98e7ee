"""Passes over the steps of a plan: each takes steps and gives steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fluidlite.executor.compile.emitter import Fresh
from fluidlite.executor.compile.plan_ir import Step, Storage, Value, flat
from fluidlite.values.recycling import RecycledArrays

__all__ = ["drop_dead", "settle", "stale_aliases"]

RECYCLED = 4096  # bytes from which taking an array again is cheaper than a new one


def drop_dead(steps: Sequence[Step], kept: Iterable[Value]) -> list[Step]:
    """Leave out steps whose results nobody reads: not a later step, not a fetch, not a persistable
    variable.
    """
    needed: set[Value] = set()
    for value in kept:
        _need(value, needed)
    return _sweep(steps, needed)


def _sweep(steps: Sequence[Step], needed: set[Value]) -> list[Step]:
    """The steps that `needed` values depend on; the set grows by what those steps read."""
    result: list[Step] = []
    for step in reversed(steps):
        if step.body is not None:
            for value in step.reads:
                _need(value, needed)
            step = replace(step, body=_sweep_again(step.body, needed))
            stays = True
        elif step.is_view:
            stays = step.writes[0] in needed
        else:
            stays = step.effect or any(
                value.root in needed or value.root.storage == Storage.PARAM for value in step.writes
            )
        if stays:
            result.append(step)
            for value in step.reads:
                _need(value, needed)
    return result[::-1]


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


def settle(steps: Sequence[Step], bound: dict[str, object]) -> None:
    """Give values that outlive their step an array of their own each time, instead of a place in the pool."""
    for value in [value.root for step in flat(steps) for value in step.holds]:
        if value.storage == Storage.BUFFER:
            value.storage = Storage.FRESH
            if value.nbytes >= RECYCLED:
                value.expression = f"array_{value.number}()"
                bound[f"array_{value.number}"] = Fresh(RecycledArrays, (value.shape, value.dtype))


def stale_aliases(steps: Sequence[Step], kept: Iterable[Value]) -> bool:
    """Whether a step or a fetch would read an old version of a persistable variable after a newer one was
    written.
    """
    newest: dict[str, int] = {}

    def stale(value: Value) -> bool:
        root = value.root
        return root.storage == Storage.PARAM and newest.get(root.name, -1) > root.number

    twice = [
        item for step in steps for item in [*flat([step])] * (1 if step.body is None else 2)
    ]  # a loop comes back to its start
    for step in twice:
        if any(stale(value) for value in step.reads):
            return True
        for value in step.writes:
            if value.root.storage == Storage.PARAM and not step.is_view:
                newest[value.root.name] = max(value.root.number, newest.get(value.root.name, -1))
    return any(stale(value) for value in kept)
