"""The reasons for which the step of a plan becomes no graph of a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fluidlite.executor.plan.plan import CompiledPlan
from fluidlite.executor.plan.steps import flat
from fluidlite.executor.plan.values import Storage
from fluidlite.executor.run.calls import BlockCall, KernelCall

__all__ = ["obstacles"]


def obstacles(compiled: CompiledPlan) -> list[str]:
    """The ops of a plan that need the host or memory of their own, by the reason; nothing where a graph can
    hold the step.
    """
    objects = compiled.bound_objects()
    steps = list(flat(compiled.plan.steps))
    own = {value.number for value in compiled.values if value.storage in (Storage.LOCAL, Storage.FRESH)}
    makers = [step for step in steps if any(value.number in own for value in step.writes)]
    by_kernels = {id(thing.op) for thing in objects if isinstance(thing, (KernelCall, BlockCall))}
    rest = [step.op for step in makers if step.body is None and id(step.op) not in by_kernels]
    found = [
        _listed("portable kernels", (thing.op.type for thing in objects if isinstance(thing, KernelCall))),
        _listed("the interpreter", (thing.op.type for thing in objects if isinstance(thing, BlockCall))),
        _listed("loops and branches", (step.op.type for step in steps if step.body is not None and step.op)),
    ]
    if own and not any(found):
        found.append(_listed("arrays of their own", (op.type for op in rest if op)) or "arrays of their own")
    return [reason for reason in found if reason]


def _listed(reason: str, types: Iterable[str]) -> str:
    """The reason with the ops that it holds for, most frequent first; empty where there are none."""
    counts = Counter(types).most_common()
    return f"{reason} ({', '.join(f'{name} x {count}' for name, count in counts)})" if counts else ""
