"""Fusion of element-wise steps on a device: each run of one shape becomes one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fluidlite.executor.cuda.elementwise import FusedKernel, Part
from fluidlite.executor.cuda.kernel import C_TYPES
from fluidlite.executor.plan.actions import Bound, Call, Out
from fluidlite.executor.plan.plan import Plan, Remark
from fluidlite.executor.plan.steps import Step, in_bodies
from fluidlite.executor.plan.values import Storage, Value

__all__ = ["fuse_on_device", "launch", "launches_of"]

# their CUDA text computes in floating point: integers would be truncated or rounded on the way
_FLOAT_ONLY = frozenset(("abs", "mod", "floordiv", "fmod", "pow"))


def fuse_on_device(plan: Plan) -> Plan:
    """Replace runs of element-wise steps by the launch of one fused kernel each."""
    if plan.target.on_host:
        return plan
    steps = in_bodies(plan.steps, plan.fetches, _fused)
    return replace(plan, steps=steps, remarks=(*plan.remarks, *launches_of(steps)))


def launches_of(steps: Sequence[Step]) -> list[Remark]:
    """The generated kernels of a plan, with the ops that each computes."""
    return [
        Remark("fused", f"one kernel for {', '.join(dict.fromkeys(op.type for op in step.fused))}")
        for step in steps
        if step.fused
    ]


def _fused(steps: Sequence[Step], kept: Sequence[Value]) -> list[Step]:
    result: list[Step] = []
    run: list[Step] = []

    def close() -> None:
        if run:
            result.append(_launch(list(run), steps, kept))
            run.clear()

    for step in steps:
        # a kernel has one loop over one shape
        if _fusible(step) and (not run or step.writes[0].shape == run[0].writes[0].shape):
            run.append(step)
        # a view of something older is only a name: it goes ahead and does not end the run
        elif step.is_view and not any(step.reads[0].root is other.writes[0].root for other in run):
            result.append(step)
        else:
            close()
            run.extend([step] if _fusible(step) else [])
            result.extend([] if run else [step])
    close()
    return result


def _fusible(step: Step) -> bool:
    """True if a kernel can compute a step: contiguous operands of dtypes that CUDA has."""
    kind = step.elementwise
    if kind is None or step.writes[0].shape is None or not step.writes[0].size:
        return False
    values = [*step.reads, *step.writes]
    is_float = all(value.dtype is not None and value.dtype.kind == "f" for value in values)
    if kind.function in _FLOAT_ONLY and not is_float:
        return False
    return all(str(value.dtype) in C_TYPES and value.contiguous for value in values)


def _launch(run: Sequence[Step], steps: Sequence[Step], kept: Sequence[Value]) -> Step:
    """One step that launches the kernel of a run."""
    inside = {id(step) for step in run}
    # what only the run itself reads stays in registers of the kernel
    needed = {value.root for step in steps if id(step) not in inside for value in step.all_reads()}
    needed |= {value.root for value in kept}
    made = {step.writes[0] for step in run}
    written = [step.writes[0] for step in run]
    outputs = tuple(out for out in written if out.root in needed or out.storage is Storage.PARAM)
    inputs = tuple(dict.fromkeys(value for step in run for value in step.reads if value not in made))
    ops = tuple(dict.fromkeys(op for step in run for op in step.ops))
    computed = tuple((step.action, step.writes[0]) for step in run if step.elementwise)
    start = launch((Part(computed, inputs, outputs),))
    effect = any(step.effect for step in run)
    return replace(start, op=run[0].op, effect=effect, fused=ops)


def launch(parts: Sequence[Part]) -> Step:
    """The step that launches one kernel for all parts."""
    kernel = FusedKernel(f"fused_{parts[0].run[0][1].number}", parts)
    operands = [operand for part in parts for operand in (*part.inputs, *map(Out, part.outputs))]
    return Step(None, Call(Bound("fused", kernel), tuple(operands)))
