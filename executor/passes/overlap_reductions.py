"""Reductions over ranks that go on while the plan computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fluidlite.executor.plan.actions import Bound, Call, Method
from fluidlite.executor.plan.plan import Plan
from fluidlite.executor.plan.steps import Step, product_of
from fluidlite.executor.plan.uses import memories

__all__ = ["overlap_reductions"]

LONG = 1 << 20  # multiply-adds of a product after which it pays to let communication get on


def overlap_reductions(plan: Plan) -> Plan:
    """Wait for each reduction right before the first step that needs its result, and poll it after long
    products.
    """
    return replace(plan, steps=tuple(_with_waits(plan.steps)))


def _with_waits(steps: Sequence[Step]) -> list[Step]:
    """Steps with a wait for each reduction that one of them starts, in the order of the first use."""
    result: list[Step] = []
    pending: dict[Bound, Step] = {}
    for step in steps:
        if step.body is not None:
            step = replace(step, body=tuple(_with_waits(step.body)))
        if pending and not step.is_view:
            # writes too: the memory is being sent from, so nothing may change it yet
            touched = memories([*step.all_reads(), *step.all_writes(), *step.temps])
            for reduction, start in list(pending.items()):
                if touched & memories([*start.reads, *start.writes]):
                    result.append(_wait(pending.pop(reduction)))
        result.append(step)
        if pending:
            product = product_of(step)
            if product is not None and product.work >= LONG:
                # MPI makes progress only inside its own calls, so a long product would hold the exchange up
                result += [Step(None, Call(Method(reduction, "poll")), effect=True) for reduction in pending]
        if step.starts is not None:
            pending[step.starts] = step
    return result + [_wait(start) for start in pending.values()]


def _wait(start: Step) -> Step:
    """The step that ends a reduction; until then nothing else may use its memory, so it reads and writes what
    the start did.
    """
    assert start.starts is not None
    wait = Call(Method(start.starts, "wait"))
    return Step(start.op, wait, start.writes, (*start.reads, *start.writes), effect=True)
