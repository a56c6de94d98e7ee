"""From a block to a compiled plan: lower the ops, run the passes, write the source."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fluidlite.base import flags
from fluidlite.base.errors import NotFoundError, did_you_mean
from fluidlite.base.process import without_collector
from fluidlite.executor.compile import block_gradients, branches, recurrences
from fluidlite.executor.compile.blocks import WRITERS
from fluidlite.executor.compile.builder import PlanBuilder
from fluidlite.executor.compile.render import render
from fluidlite.executor.passes import PASSES
from fluidlite.executor.plan.plan import CompiledPlan, FeedSpec, Plan, Target
from fluidlite.executor.plan.sizes import SizeTable
from fluidlite.executor.plan.verify import LOWERING, verify
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.values.scope import Scope

__all__ = ["compile_plan", "lower", "plan_after", "run_passes"]

# importing them declares how the ops with sub-blocks are written
assert block_gradients and branches and recurrences


def compile_plan(
    block: Block,
    ops: Sequence[Operator],
    feeds: Mapping[str, FeedSpec],
    fetches: Sequence[str],
    scope: Scope,
    target: Target | None = None,
    sizes: SizeTable | None = None,
) -> CompiledPlan:
    """The plan for `ops` of a block, fed as `feeds` say, on the arrays that `scope` holds.

    With `sizes`, which the shapes of the feeds are made of, for feeds of several sizes.
    """
    with without_collector():
        lowered = lower(block, ops, feeds, fetches, scope, target or Target())
        plan = run_passes(replace(lowered, sizes=sizes))
        compiled = CompiledPlan(plan, render(plan))
        if sizes is not None:
            # an object that keeps a size, without telling it (`PlanObject.sizes`), fails when it uses it
            sizes.seal()
        return compiled


def lower(
    block: Block,
    ops: Sequence[Operator],
    feeds: Mapping[str, FeedSpec],
    fetches: Sequence[str],
    scope: Scope,
    target: Target,
) -> Plan:
    """The plan before any pass; lowered again when a gradient cannot follow its loop into the plan."""
    # ops that an attempt had to leave to the interpreter are left there by the next; each attempt adds one,
    # so this ends
    outside: Mapping[Operator, str] = {}
    while True:
        builder = PlanBuilder(block, ops, feeds, fetches, scope, target, WRITERS, outside)
        plan = builder.build()
        if plan is not None:
            return plan
        outside = builder.outside


def run_passes(plan: Plan, last: str = "", times: dict[str, float] | None = None) -> Plan:
    """The plan after all passes, or after the one named `last`; `times` takes the seconds that each needed.

    With FLAGS_check_plans, the plan is verified before the first pass and after each.
    """
    checked = bool(flags.get_flags("FLAGS_check_plans")["FLAGS_check_plans"])
    if checked:
        _verify(plan, LOWERING)
    verified = None
    for change in PASSES:
        start = time.perf_counter()
        plan = change(plan)
        if times is not None:
            times[change.__name__] = time.perf_counter() - start
        if checked:
            _verify(plan, change.__name__, verified)
            verified = plan
        if change.__name__ == last:
            break
    return plan


def _verify(plan: Plan, after: str, before: Plan | None = None) -> None:
    """Verify a plan; what the check asks about sizes says nothing about which runs the plan serves."""
    if plan.sizes is not None:
        plan.sizes.record(False)
    try:
        verify(plan, after, before)
    finally:
        if plan.sizes is not None:
            plan.sizes.record(True)


def plan_after(plan: Plan, name: str, times: dict[str, float]) -> CompiledPlan:
    """A lowered plan after the pass of that name ("lower" for none), as source; NotFoundError for an
    unknown name. `times` receives the seconds of each stage.
    """
    names = [change.__name__ for change in PASSES]
    if name != "lower" and name not in names:
        raise NotFoundError(f"there is no pass {name!r}{did_you_mean(name, ['lower', *names])}")
    if name != "lower":
        plan = run_passes(plan, name, times)
    start = time.perf_counter()
    source = render(plan)
    rendered = time.perf_counter()
    compiled = CompiledPlan(plan, source)
    times["render"] = rendered - start
    times["compile"] = time.perf_counter() - rendered
    return compiled
