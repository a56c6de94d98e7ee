"""The updates of many parameters in few launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fluidlite.executor.cuda.elementwise import FusedKernel
from fluidlite.executor.passes.fuse_on_device import launch, launches_of
from fluidlite.executor.plan.actions import Bound, Call
from fluidlite.executor.plan.plan import Plan
from fluidlite.executor.plan.steps import Step, in_bodies
from fluidlite.executor.plan.uses import Footprint
from fluidlite.executor.plan.values import Value

__all__ = ["merge_updates"]

MAX_POINTERS = 400  # a launch takes 4 KB of arguments


def merge_updates(plan: Plan) -> Plan:
    """On a device, launch the kernels of optimizer ops that know nothing of each other side by side."""
    if plan.target.on_host:
        return plan
    steps = in_bodies(plan.steps, plan.fetches, _side_by_side)
    # what was said of the launches that there are no more
    before = set(launches_of(plan.steps))
    remarks = [remark for remark in plan.remarks if remark not in before]
    return replace(plan, steps=steps, remarks=(*remarks, *launches_of(steps)))


def _side_by_side(steps: Sequence[Step], kept: Sequence[Value]) -> list[Step]:
    result: list[Step] = []
    updates: list[Step] = []

    def close() -> None:
        for level in _levels(updates):
            result.extend(_in_launches(level))
        updates.clear()

    for step in steps:
        if _is_update(step):
            updates.append(step)
        # other views are only names: they do not part the updates around them
        elif step.is_view and not _shows_a_result(step, updates):
            result.append(step)
        else:
            close()
            result.append(step)
    close()
    return result


def _shows_a_result(step: Step, updates: Sequence[Step]) -> bool:
    """True if a view shows what one of the updates writes."""
    return any(step.reads[0].root is value.root for other in updates for value in other.writes)


def _levels(steps: Sequence[Step]) -> list[list[Step]]:
    """The steps by how many others must have run before them."""
    levels: list[list[Step]] = []
    for step in steps:
        depth = len(levels)
        # as early as what it depends on allows, so that updates of all parameters meet in one launch
        while depth and all(_independent(other, step) for other in levels[depth - 1]):
            depth -= 1
        if depth == len(levels):
            levels.append([])
        levels[depth].append(step)
    return levels


def _in_launches(steps: Sequence[Step]) -> list[Step]:
    """Independent launches, as few as the number of pointers that one takes allows."""
    result: list[Step] = []
    for step in steps:
        last = result[-1] if result else None
        if last is not None and _pointers(last) + _pointers(step) <= MAX_POINTERS:
            result[-1] = _merged(last, step)
        else:
            result.append(step)
    return result


def _pointers(step: Step) -> int:
    return len(step.reads) + len(step.writes)


def _kernel_of(step: Step) -> FusedKernel | None:
    """The kernel that a step launches."""
    action = step.action
    if isinstance(action, Call) and isinstance(action.callee, Bound):
        thing = action.callee.thing
        return thing if isinstance(thing, FusedKernel) else None
    return None


def _is_update(step: Step) -> bool:
    """True if a step launches the kernel of an optimizer op, or chooses what a branch gives it."""
    op = step.op
    if op is None or _kernel_of(step) is None:
        return False
    return op._is_optimize_op() or bool(op.sub_blocks())


def _independent(first: Step, second: Step) -> bool:
    """True if two launches may run at the same time."""
    return Footprint(first).is_apart(Footprint(second))


def _merged(first: Step, second: Step) -> Step:
    """One launch for two."""
    kernels = [kernel for step in (first, second) if (kernel := _kernel_of(step)) is not None]
    merged = launch([part for kernel in kernels for part in kernel.parts])
    ops = tuple(dict.fromkeys((*first.ops, *second.ops)))
    return replace(merged, op=first.op, effect=first.effect or second.effect, fused=ops)
