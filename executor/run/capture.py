"""The reasons for which the step of a plan becomes no graph of a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fluidlite.executor.plan.actions import Assign, Bound, Call, ScopeFunction
from fluidlite.executor.plan.plan import CompiledPlan
from fluidlite.executor.plan.steps import Step, flat
from fluidlite.executor.plan.values import Storage, Value

__all__ = ["obstacles"]


def obstacles(compiled: CompiledPlan) -> list[str]:
    """The ops of a plan that need the host or memory of their own, by the reason; nothing where a graph can
    hold the step.
    """
    steps = list(flat(compiled.plan.steps))
    is_steady = not any(map(_may_change, steps)) and not any(map(_may_vary, compiled.values))
    held = {id(call) for call in compiled.op_calls() if is_steady and call.is_alone()}
    calls = [call for call in compiled.op_calls() if id(call) not in held]
    own = {value.number for value in compiled.values if value.storage in (Storage.LOCAL, Storage.FRESH)}
    makers = [
        step
        for step in steps
        if any(value.number in own for value in step.writes) and id(_callee(step)) not in held
    ]
    by_kernels = {id(call.op) for call in calls}
    rest = [step.op for step in makers if step.body is None and id(step.op) not in by_kernels]
    found = [
        _listed("portable kernels", (call.op.type for call in calls if not call.is_block)),
        _listed("the interpreter", (call.op.type for call in calls if call.is_block)),
        _listed("loops and branches", (step.op.type for step in steps if step.body is not None and step.op)),
    ]
    if makers and not any(found):
        found.append(
            _listed("arrays allocated in each step", (op.type for op in rest if op))
            or "arrays allocated in each step"
        )
    return [reason for reason in found if reason]


def _callee(step: Step) -> object:
    """The object or function that a step calls, by whose result symbols get their values."""
    action = step.action
    call = action.sources[0] if isinstance(action, Assign) and len(action.sources) == 1 else action
    if not isinstance(call, Call):
        return None
    return call.callee.thing if isinstance(call.callee, Bound) else call.callee


def _may_change(step: Step) -> bool:
    """True if a step exchanges something with the scope, which may be another thing in the next step."""
    return isinstance(_callee(step), ScopeFunction)


def _may_vary(value: Value) -> bool:
    """True for a feed of which another step may have another shape or level of detail."""
    return value.storage is Storage.FEED and (value.has_lod or not value.known)


def _listed(reason: str, types: Iterable[str]) -> str:
    """The reason with the ops that it holds for, most frequent first; empty where there are none."""
    counts = Counter(types).most_common()
    return f"{reason} ({', '.join(f'{name} x {count}' for name, count in counts)})" if counts else ""
