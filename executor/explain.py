"""A plan as a person reads it: what it costs, what was fused or left out, and its source."""

from __future__ import annotations

from collections import Counter

from fluidlite.executor.compile.plan import Plan
from fluidlite.executor.compile.plan_ir import Storage, flat

__all__ = ["explain"]


def explain(plan: Plan) -> str:
    """Summary, buffers and generated source of a plan."""
    lines = [
        f"plan: {len([*flat(plan.steps)])} steps, {plan.dropped} left out because nothing reads their "
        f"results",
        f"memory: {_bytes(plan.layout.pool_bytes)} of buffers (without sharing "
        f"{_bytes(plan.layout.total_bytes)}), "
        f"{_bytes(_param_bytes(plan))} of persistable variables, updated in place",
        *_blocks(plan),
        *_calls(plan),
        *_fusions(plan),
        *_buffers(plan),
        "",
        plan.text,
    ]
    return "\n".join(lines)


def _bytes(count: int) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count = count / 1024  # type: ignore[assignment]
    return f"{count:.4g} GB"


def _param_bytes(plan: Plan) -> int:
    return sum({value.name: value.nbytes for value in plan.values if value.storage == Storage.PARAM}.values())


def _blocks(plan: Plan) -> list[str]:
    """Which sub-blocks are part of the source, and which run op by op in the interpreter, and why."""
    inside = Counter(
        step.op.type for step in flat(plan.steps) if step.body is not None and step.op is not None
    )
    lines = (
        [
            "sub-blocks written into the plan: "
            + ", ".join(f"{name} x {count}" for name, count in sorted(inside.items()))
        ]
        if inside
        else []
    )
    return lines + [
        f"sub-block left to the interpreter: {op.type} at {op.where}: {reason}"
        for op, reason in plan.choices.outside.items()
    ]


def _calls(plan: Plan) -> list[str]:
    kinds = Counter(
        step.op.type
        for step in flat(plan.steps)
        if step.op is not None and any("kernel_" in line for line in step.lines)
    )
    if not kinds:
        return []
    return [
        "portable kernels (a fresh array per result): "
        + ", ".join(f"{name} x {count}" for name, count in kinds.most_common())
    ]


def _fusions(plan: Plan) -> list[str]:
    return [f"fused: {step.note}" for step in flat(plan.steps) if "fused" in step.note]


def _buffers(plan: Plan) -> list[str]:
    rows = sorted(plan.layout.offsets.items(), key=lambda item: (item[1], item[0].number))
    return ["buffers (offset, bytes, dtype, shape, variable):"] + [
        f"  {offset:>12} {value.nbytes:>12} {value.symbol:>6} {value.dtype} {list(value.shape or ())} "
        f"{value.name or '(temporary)'}"
        for value, offset in rows
    ]
