"""Reductions over ranks go on while the plan computes: each is waited for right before the first step that
needs its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from fluidlite.executor.compile.plan_ir import Step, Storage, Value

__all__ = ["wait_where_needed"]

LONG = 1 << 20  # multiply-adds of a product behind which it pays to let communication get on


def wait_where_needed(steps: Sequence[Step]) -> list[Step]:
    """Steps with a wait for each reduction that one of them starts, in the order of the first use."""
    result: list[Step] = []
    pending: dict[str, Step] = {}
    for step in steps:
        if step.body is not None:
            step = replace(step, body=wait_where_needed(step.body))
        if pending and not step.is_view:
            touched = _memory([*step.all_reads(), *step.all_writes(), *step.temps])
            result += [
                _wait(pending.pop(name))
                for name, start in list(pending.items())
                if touched & _memory([*start.reads, *start.writes])
            ]
        result.append(step)
        if pending and step.products >= LONG:
            result.append(Step(None, [], [], ["; ".join(f"{name}.poll()" for name in pending)], effect=True))
        if step.starts:
            pending[step.starts] = step
    return result + [_wait(start) for start in pending.values()]


def _memory(values: Iterable[Value]) -> set[Any]:
    """What tells the memory of values apart."""
    return {
        ("param", value.root.name) if value.root.storage == Storage.PARAM else value.root for value in values
    }


def _wait(start: Step) -> Step:
    """The step that ends a reduction; until then nothing else may use its memory, so it reads and writes
    what the start did.
    """
    return Step(
        start.op,
        list(dict.fromkeys([*start.reads, *start.writes])),
        list(start.writes),
        [f"{start.starts}.wait()"],
        effect=True,
    )
