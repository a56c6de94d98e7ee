"""Fusion of element-wise steps on the CPU: chains over large arrays run block by block, so that only what
leaves the chain touches memory, and the blocks are shared by a team of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fluidlite.executor.compile.plan_ir import Step, Storage, Value, ValueFactory
from fluidlite.executor.compile.render import Scalars, elementwise_lines
from fluidlite.executor.run.team import team_of

__all__ = ["group"]

LARGE = 1 << 16  # elements from which an array no longer fits a core's cache beside its neighbours
BLOCK = 1 << 15  # elements in a block: 128 KB, so that a handful of operands stay in a 1 MB cache
SHARED = 1 << 20  # element operations from which waking a second thread pays


def group(
    steps: Sequence[Step],
    kept: Sequence[Value],
    values: ValueFactory,
    scalars: Scalars,
    threads: int,
    bound: dict[str, Any],
) -> list[Step]:
    """Steps with runs of large element-wise steps replaced by one blocked loop each."""
    result: list[Step] = []
    run: list[Step] = []
    reads_left = _read_counts(steps, kept)

    def close() -> None:
        if run:
            result.extend(_Loop(list(run), reads_left, values, scalars, threads, bound).steps())
            run.clear()

    for step in steps:
        if run and _joins(step, run[0]):
            run.append(step)
        elif step.is_view and not any(step.reads[0].root is other.writes[0].root for other in run):
            result.append(step)  # a view of something older: it is only a name
        else:
            close()
            run.extend([step] if _joins(step, step) else [])
            result.extend([] if run else [step])
    close()
    return result


def _read_counts(steps: Sequence[Step], kept: Sequence[Value]) -> dict[Value, int]:
    """How often each value's memory is read, fetches included."""
    counts: dict[Value, int] = {}
    for step in steps:
        for value in step.all_reads():
            counts[value.root] = counts.get(value.root, 0) + 1
    for value in kept:
        counts[value.root] = counts.get(value.root, 0) + 1
    return counts


def _joins(step: Step, first: Step) -> bool:
    """Whether a step can run in the same loop as `first`."""
    if step.elementwise is None:
        return False
    out, like = step.writes[0], first.writes[0]
    if (
        out.shape != like.shape
        or not out.shape
        or out.size < LARGE
        or out.storage not in (Storage.BUFFER, Storage.PARAM)
    ):
        return False
    return all(
        not isinstance(item, Value) or item.root.storage != Storage.LOCAL
        for item in step.elementwise.operands
    )


@dataclass
class _Geometry:
    """How the loop walks: over `extent` rows (or elements, when `flat`), `chunk` at a time."""

    flat: bool
    extent: int
    chunk: int


class _Loop:
    """One run of element-wise steps of the same shape, as a blocked loop."""

    def __init__(
        self,
        run: list[Step],
        reads_left: dict[Value, int],
        values: ValueFactory,
        scalars: Scalars,
        threads: int,
        bound: dict[str, Any],
    ) -> None:
        self.run, self.values, self.scalars, self.bound = run, values, scalars, bound
        inside = [value for step in run for value in step.reads]
        self.inner = {
            step.writes[0]
            for step in run
            if step.writes[0].storage == Storage.BUFFER
            and sum(value.root is step.writes[0] for value in inside) == reads_left.get(step.writes[0], 0)
        }
        self.shape = run[0].writes[0].shape or ()
        self.size = run[0].writes[0].size
        self.threads = threads if self.size * len(run) >= SHARED else 1
        self.geometry = self._walk()

    def _walk(self) -> _Geometry:
        operands = [item for step in self.run for item in (*step.reads, *step.writes)]
        if all(value.shape == self.shape or value.size == 1 for value in operands):
            return _Geometry(True, self.size, BLOCK)
        rows = self.shape[0]
        return _Geometry(False, rows, max(1, BLOCK * rows // self.size))

    def steps(self) -> list[Step]:
        """The loop as one step; the steps themselves where blocking would win nothing."""
        if (len(self.run) == 1 and self.threads == 1) or self.geometry.chunk * 2 > self.geometry.extent:
            return self.run
        outer_reads = [value for step in self.run for value in step.reads if value.root not in self.inner]
        writes = [step.writes[0] for step in self.run if step.writes[0] not in self.inner]
        registers, names = self._registers()
        lines = self._loop(outer_reads, writes, registers, names)
        types = ", ".join(dict.fromkeys(step.op.type for step in self.run if step.op is not None))
        effect = any(step.effect for step in self.run)
        return [
            Step(
                self.run[0].op,
                list(dict.fromkeys(outer_reads)),
                writes,
                lines,
                list(registers),
                effect=effect,
                note=f"{len(self.run)} element-wise steps fused ({types})",
            )
        ]

    def _registers(self) -> tuple[dict[Value, str], dict[Value, str]]:
        """Block-sized scratch for the inner values, reused as they die: scratch value -> name, inner value
        -> name.
        """
        last = {value.root: index for index, step in enumerate(self.run) for value in step.reads}
        free: dict[Any, list[str]] = {}
        held: dict[Value, str] = {}
        names: dict[Value, str] = {}
        scratch: dict[Value, str] = {}
        block = (self.geometry.chunk,) if self.geometry.flat else (self.geometry.chunk, *self.shape[1:])
        for index, step in enumerate(self.run):
            dying = [
                value
                for value in dict.fromkeys(item.root for item in step.reads)
                if value in held and last[value] == index
            ]
            out = step.writes[0]
            donor = self._donor(step, dying)
            if out in self.inner:
                pool = free.setdefault(out.dtype, [])
                if donor is not None and donor.dtype == out.dtype:
                    names[out] = held.pop(donor)
                    dying.remove(donor)
                elif pool:
                    names[out] = pool.pop()
                else:
                    names[out] = f"w{len(scratch)}"
                    scratch[self.values.make((self.threads, *block), out.dtype, Storage.BUFFER)] = names[out]
                held[out] = names[out]
            for value in dying:
                free.setdefault(value.dtype, []).append(held.pop(value))
        return scratch, names

    @staticmethod
    def _donor(step: Step, dying: list[Value]) -> Value | None:
        assert step.elementwise is not None
        operands = (
            step.elementwise.operands[2:]
            if step.elementwise.function == "where"
            else step.elementwise.operands
        )
        others = step.elementwise.operands[:2] if step.elementwise.function == "where" else ()
        return next(
            (
                value
                for value in operands
                if isinstance(value, Value) and value in dying and value not in others
            ),
            None,
        )

    def _loop(
        self,
        reads: Sequence[Value],
        writes: Sequence[Value],
        scratch: dict[Value, str],
        names: dict[Value, str],
    ) -> list[str]:
        walk = self.geometry
        head: list[str] = []
        body: list[str] = []
        stop = f"i + {walk.chunk}"
        even = walk.extent % walk.chunk == 0
        for value, name in scratch.items():
            piece = f"{value}[t]" if even else f"{value}[t, :min({walk.chunk}, {walk.extent} - i)]"
            (head if even else body).append(f"{name} = {piece}")
        local = dict(names)
        for value in dict.fromkeys((*reads, *writes)):
            if value.shape == self.shape or (
                not walk.flat
                and len(value.shape or ()) == len(self.shape)
                and value.shape is not None
                and value.shape[0] == walk.extent
            ):
                local[value] = f"b{value.number}"
                source = f"f{value.number}" if walk.flat and len(self.shape) > 1 else str(value)
                if source != str(value):
                    head.append(f"{source} = {value}.reshape(-1)")
                body.append(f"{local[value]} = {source}[i:{stop}]")
        for step in self.run:
            body.extend(elementwise_lines(step, local, self.scalars))
        if self.threads == 1:
            return [
                "t = 0",
                *head,
                f"for i in range(0, {walk.extent}, {walk.chunk}):",
                *(f"    {line}" for line in body),
            ]
        self.bound["team"] = team_of(self.threads)
        name = f"tile_{self.run[0].writes[0].number}"
        loop = f"for i in range(t * {walk.chunk}, {walk.extent}, {walk.chunk * self.threads}):"
        return [
            f"def {name}(t):",
            *(f"    {line}" for line in head),
            f"    {loop}",
            *(f"        {line}" for line in body),
            f"team({name})",
        ]
