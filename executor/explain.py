"""A plan as a person reads it: its cost, what was fused or left out and why, its source, and its buffers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from fluidlite.base.cells import table_cell, text_cell
from fluidlite.base.plain_text import printable
from fluidlite.executor.compile.pipeline import plan_after
from fluidlite.executor.passes import PASSES
from fluidlite.executor.plan.actions import Chained
from fluidlite.executor.plan.plan import CompiledPlan, Plan
from fluidlite.executor.plan.steps import Step, flat
from fluidlite.executor.plan_table import HEADS, PlanRow, rows_of
from fluidlite.executor.run.capture import obstacles

__all__ = ["Explanation", "PlanTable", "explain", "explain_briefly"]


class Explanation(str):
    """The text of a plan, which a notebook shows folded."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return text_cell(self)


class PlanTable(Explanation):
    """The text of a plan's table, which a notebook shows as one."""

    rows: tuple[PlanRow, ...] = ()

    def _repr_html_(self) -> str:
        title = self.partition("\n")[0]
        return table_cell(title, HEADS, [row.cells() for row in self.rows])


_MOST_ROWS = 20


def explain_briefly(lower: Callable[[], Plan]) -> PlanTable:
    """The table of the plan that `lower` gives: ops, their kernels, and how much these do."""
    lowered = lower()
    compiled = plan_after(lowered, PASSES[-1].__name__, {})
    rows = rows_of(compiled.plan, lowered)
    shown = [
        (row.op, row.kernel, str(row.steps), f"{row.flops:,}" if row.flops else "", _bytes(row.bytes))
        for row in rows[:_MOST_ROWS]
    ]
    rest = rows[_MOST_ROWS:]
    if rest:
        steps, flops, size = (sum(getattr(row, name) for row in rest) for name in ("steps", "flops", "bytes"))
        shown.append((f"{len(rest)} more rows", "", str(steps), f"{flops:,}", _bytes(size)))
    counts = Counter(remark.kind for remark in compiled.plan.remarks)
    passes = ", ".join(f"{count} x {kind}" for kind, count in counts.items()) or "no remarks"
    lines = [*_summary(lowered, compiled), "", *_columns([HEADS, *shown]), ""]
    lines += _graph(compiled)
    lines.append(f"passes: {passes}; full=True shows them, the generated source and the buffers")
    made = PlanTable("\n".join(map(printable, lines)))
    made.rows = tuple(rows)
    return made


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Cells below each other: texts from the left, numbers from the right."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(HEADS))]
    sides = ("<", "<", ">", ">", ">")
    return [
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def explain(lower: Callable[[], Plan], after: str = "") -> Explanation:
    """Summary, remarks of the passes, generated source and buffers of the plan that `lower` gives, after a
    pass (default: the last).
    """
    start = time.perf_counter()
    lowered = lower()
    times = {"lower": time.perf_counter() - start}
    compiled = plan_after(lowered, after or PASSES[-1].__name__, times)
    parts: Iterable[list[str]] = (
        _summary(lowered, compiled),
        [_planning(times)],
        _blocks(compiled.plan),
        _calls(compiled),
        _graph(compiled),
        _kernels(compiled),
        _remarks(compiled.plan),
        ["", *compiled.text.split("\n")],
        _buffers(compiled.plan),
    )
    # names of variables are among it, which may hold anything
    return Explanation("\n".join(printable(line) for part in parts for line in part))


def _as_lowered(step: Step) -> int:
    """The steps that one stands for: of an update that is like others, those that one loop makes of it."""
    return len(step.action.form.run) if isinstance(step.action, Chained) else int(not step.is_view)


def _summary(lowered: Plan, compiled: CompiledPlan) -> list[str]:
    plan = compiled.plan
    steps = sum(not step.is_view for step in flat(plan.steps))
    before = sum(map(_as_lowered, flat(lowered.steps)))
    lines = [f"plan: {steps} steps (of {before} as lowered)"]
    params = sum({value.name: value.nbytes for value in compiled.values if value.persists}.values())
    persistable = f"{_bytes(params)} of persistable variables, updated in place"
    if plan.layout is None:
        return [*lines, f"memory: buffers are not placed yet, {persistable}"]
    pool = _bytes(plan.layout.pool_bytes)
    alone = _bytes(plan.layout.total_bytes)
    least = _bytes(plan.layout.live_bytes)
    return [
        *lines,
        f"memory: {pool} of buffers (at most {least} in use at once; without sharing {alone}), {persistable}",
    ]


def _planning(times: Mapping[str, float]) -> str:
    """The time that making the plan took, and the stages that took the most of it."""
    slowest = sorted(times.items(), key=lambda item: -item[1])[:6]
    listed = ", ".join(f"{name} {seconds * 1000:.1f}" for name, seconds in slowest)
    return f"planning: {sum(times.values()) * 1000:.1f} ms ({listed})"


def _bytes(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count = count / 1024
    return f"{count:.4g} GB"


def _blocks(plan: Plan) -> list[str]:
    """Sub-blocks that are part of the source; those left to the interpreter are among the remarks."""
    loops = [step for step in flat(plan.steps) if step.body is not None]
    kinds = [step.op.type for step in loops if step.op is not None]
    if not kinds:
        return []
    counts = sorted(Counter(kinds).items())
    return ["sub-blocks written into the plan: " + ", ".join(f"{name} x {count}" for name, count in counts)]


def _calls(compiled: CompiledPlan) -> list[str]:
    calls = [call.op.type for call in compiled.op_calls() if not call.is_block]
    if not calls:
        return []
    counts = Counter(calls).most_common()
    listed = ", ".join(f"{name} x {count}" for name, count in counts)
    return [f"portable kernels (a fresh array per result): {listed}"]


def _graph(compiled: CompiledPlan) -> list[str]:
    """The launches of a device at a step: one, or the reasons against it."""
    if compiled.plan.target.on_host:
        return []
    reasons = obstacles(compiled)
    return [f"no graph: {'; '.join(reasons)}" if reasons else "graph: the whole step is one launch"]


def _kernels(compiled: CompiledPlan) -> list[str]:
    """A line for each object that computes by another library than NumPy, or chooses among kernels."""
    explained = ((name, thing.explained()) for name, thing in compiled.source.bound.items())
    return [f"kernels of {name}: {text}" for name, text in explained if text]


def _remarks(plan: Plan) -> list[str]:
    """The work of the passes, each thing once, with the number of times."""
    counts = Counter(plan.remarks)
    return [
        f"{remark.kind}: {remark.text}{f' x {count}' if count > 1 else ''}"
        for remark, count in counts.items()
    ]


def _buffers(plan: Plan) -> list[str]:
    """A line for each buffer, by its place in the pool."""
    if plan.layout is None:
        return []
    rows = sorted(plan.layout.offsets.items(), key=lambda item: (item[1], item[0].number))
    return [
        "buffers (offset, bytes, number, dtype, shape, variable):",
        *(
            f"  {offset:>12} {value.nbytes:>12} {value.number:>6} {value.dtype} {list(value.shape or ())} "
            f"{value.name or '(temporary)'}"
            for value, offset in rows
        ),
    ]
