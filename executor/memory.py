"""The memory of a run before it happens: the step at which most is in use, and by which variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fluidlite.base.cells import table_cell
from fluidlite.base.records import dataclass
from fluidlite.base.units import amount
from fluidlite.executor.compile.pipeline import plan_after
from fluidlite.executor.passes import PASSES
from fluidlite.executor.plan.plan import Plan
from fluidlite.executor.plan.sizes import plain
from fluidlite.executor.plan.steps import Step
from fluidlite.executor.plan.values import Value
from fluidlite.ir.operator import Operator

__all__ = ["HeldArray", "MemoryUse", "memory_of"]


@dataclass(frozen=True)
class HeldArray:
    """An array: its variable ("" for a temporary), the op that makes it or, for a persistable one, first
    uses it, and the user's line of that op.
    """

    variable: str
    nbytes: int
    shape: tuple[int, ...]
    dtype: str
    op: str
    where: str

    def __str__(self) -> str:
        size = f"{self.nbytes:>14,} B  {self.dtype}{list(self.shape)}"
        return f"{size}  {self.variable or '(temporary)'}  {self.op} at {self.where}"


@dataclass(frozen=True)
class MemoryUse:
    """The memory of one run of a program.

    Attributes
    ----------
    peak_bytes: of buffers in use at once, at the op `peak_op`, which is at the user's line `peak_where`.
    pool_bytes: of all buffers, which share one pool.
    persistable_bytes: of parameters and other persistable variables that the run touches.
    buffers: those in use at the peak, the largest first.
    persistable: persistable variables, the largest first.
    """

    peak_bytes: int
    peak_op: str
    peak_where: str
    pool_bytes: int
    persistable_bytes: int
    buffers: tuple[HeldArray, ...]
    persistable: tuple[HeldArray, ...]
    shown: int = 10

    def __str__(self) -> str:
        head = (
            f"peak: {self.peak_bytes:,} B of buffers at op {self.peak_op} ({self.peak_where}), in a pool of "
            f"{self.pool_bytes:,} B; {self.persistable_bytes:,} B of persistable variables"
        )
        at_peak = self._listed("in use at the peak:", self.buffers)
        return "\n".join([head, *at_peak, *self._listed("persistable:", self.persistable)])

    def _repr_html_(self) -> str:
        """The peak, and the arrays in use at it, as a notebook shows them."""
        title = (
            f"Memory: {amount(self.peak_bytes)} at op {self.peak_op} ({self.peak_where}), in a pool of "
            f"{amount(self.pool_bytes)}; {amount(self.persistable_bytes)} of persistable variables"
        )
        heads = ("bytes", "array", "variable", "op", "line")
        buffers = table_cell(title, heads, map(_cells, self.buffers[: self.shown]))
        return buffers + table_cell("persistable", heads, map(_cells, self.persistable[: self.shown]))

    def _listed(self, head: str, arrays: Sequence[HeldArray]) -> list[str]:
        if not arrays:
            return []
        rows = [head, *(f"  {array}" for array in arrays[: self.shown])]
        hidden = len(arrays) - self.shown
        if hidden > 0:
            rows.append(f"  ... and {hidden} smaller ones")
        return rows


def _cells(array: HeldArray) -> tuple[object, ...]:
    kind = f"{array.dtype}{list(array.shape)}"
    return array.nbytes, kind, array.variable or "(temporary)", array.op, array.where


def memory_of(lower: Callable[[], Plan], shown: int) -> MemoryUse:
    """The memory of the plan that `lower` gives; text of it lists so many arrays of each kind."""
    plan = plan_after(lower(), PASSES[-1].__name__, {}).plan
    assert plan.layout is not None, "the last pass leaves buffers placed"
    makers = _makers(plan.steps)
    live = _live(plan)
    sizes = [_covered(plan, held) for held in live]
    peak = max(range(len(sizes)), key=sizes.__getitem__, default=None)
    params = {value.name: value for value in plan.all_values() if value.persists}
    persistable = [_held(value, makers) for value in params.values()]
    op = "" if peak is None else _op_of(plan.steps[peak])
    return MemoryUse(
        peak_bytes=0 if peak is None else sizes[peak],
        peak_op=op.type if isinstance(op, Operator) else "(none)",
        peak_where=str(op.where) if isinstance(op, Operator) else "no line",
        pool_bytes=int(plain(plan.layout.pool_bytes)),
        persistable_bytes=sum(array.nbytes for array in persistable),
        buffers=_sorted([_held(value, makers) for value in (() if peak is None else live[peak])]),
        persistable=_sorted(persistable),
        shown=shown,
    )


def _sorted(arrays: Sequence[HeldArray]) -> tuple[HeldArray, ...]:
    return tuple(sorted(arrays, key=lambda array: (-array.nbytes, array.variable)))


def _op_of(step: Step) -> Operator | str:
    return step.ops[0] if step.ops else ""


def _makers(steps: Sequence[Step]) -> dict[Value, Operator]:
    """The first op that touches each array; of those within loops, the loop."""
    found: dict[Value, Operator] = {}
    for step in steps:
        if step.ops:
            for value in (*step.all_writes(), *step.all_reads(), *step.temps):
                found.setdefault(value.root, step.ops[0])
    return found


def _live(plan: Plan) -> list[list[Value]]:
    """The buffers in use at each step: from the first touch to the last, or to the end where fetched."""
    assert plan.layout is not None
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    for place, step in enumerate(plan.steps):
        for value in (*step.all_reads(), *step.all_writes(), *step.temps):
            if value.root in plan.layout.offsets:
                first.setdefault(value.root, place)
                last[value.root] = place
    last.update({value.root: len(plan.steps) - 1 for value in plan.fetches if value.root in first})
    found: list[list[Value]] = [[] for _ in plan.steps]
    for value, start in first.items():
        for place in range(start, last[value] + 1):
            found[place].append(value)
    return found


def _covered(plan: Plan, held: Sequence[Value]) -> int:
    """Bytes of the pool that some buffers cover; an element-wise result may lie where its operand was."""
    assert plan.layout is not None
    end = total = 0
    for start, size in sorted((plain(plan.layout.offsets[value]), plain(value.nbytes)) for value in held):
        total += max(0, start + size - max(start, end))
        end = max(end, start + size)
    return int(total)


def _held(value: Value, makers: dict[Value, Operator]) -> HeldArray:
    op = makers.get(value.root)
    shape = tuple(int(plain(size)) for size in value.shape or ())
    return HeldArray(
        value.name or "",
        int(plain(value.nbytes)),
        shape,
        str(value.dtype),
        op.type if op is not None else "(none)",
        str(op.where) if op is not None else "no line",
    )
