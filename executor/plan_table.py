"""A plan as a table of a screen: a row for each kind of op and the kernel that computes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fluidlite.base.gradient_names import variable_of
from fluidlite.base.records import dataclass
from fluidlite.executor.plan.actions import (
    Action,
    Branch,
    Call,
    Chained,
    CompiledRun,
    Elementwise,
    Function,
    Loop,
    Method,
    ScopeFunction,
    TiledLoop,
    WhileLoop,
)
from fluidlite.executor.plan.plan import Plan
from fluidlite.executor.plan.steps import Step, flat, product_of
from fluidlite.executor.plan.values import Value
from fluidlite.ir.flops import flops_of
from fluidlite.ir.operator import Operator
from fluidlite.ir.variable import Variable

__all__ = ["HEADS", "PlanRow", "rows_of"]

HEADS = ("op", "kernel", "steps", "FLOPs", "bytes")
_PRODUCTS = ("dot", "matmul")
_NAMED = 3  # ops of a row that are listed
_LONGEST = 44


@dataclass
class PlanRow:
    """Steps of the same ops by the same kernel: how many, their multiplications and additions (one for each
    element of an element-wise function), and the bytes that they read and write.
    """

    op: str
    kernel: str
    steps: int = 0
    flops: int = 0
    bytes: int = 0

    def cells(self) -> tuple[str, str, int, int, int]:
        """The row as the heads name it."""
        return self.op, self.kernel, self.steps, self.flops, self.bytes


def rows_of(plan: Plan, lowered: Plan) -> list[PlanRow]:
    """The rows of a plan, those with the most work first. `lowered` is the plan before its passes."""
    found: dict[tuple[str, str], PlanRow] = {}
    counts = _Flops(plan, lowered)
    for step in flat(plan.steps):
        if step.is_view:
            continue
        key = _ops_text(step.ops), _kernel(step.action, plan)
        row = found.setdefault(key, PlanRow(*key))
        row.steps += 1
        row.flops += counts.of(step)
        row.bytes += _bytes(step)
    return sorted(found.values(), key=lambda row: -(row.flops + row.bytes))


def _ops_text(ops: Iterable[Operator]) -> str:
    names = list(dict.fromkeys(op.type for op in ops))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more or "(plan)"


def _bytes(step: Step) -> int:
    """The bytes of the arrays that a step reads and writes; those of a loop are counted at its steps."""
    if step.body is not None:
        return 0
    values = {*step.reads, *step.writes} - set(step.temps)
    return sum(value.nbytes for value in values if value.known)


class _Flops:
    """Multiplications and additions of steps: of products by their sizes, of an op at its first step."""

    def __init__(self, plan: Plan, lowered: Plan) -> None:
        steps = list(flat(plan.steps))
        # passes drop values, and show others in other shapes
        values = (*lowered.all_values(), *lowered.feeds.values())
        self._shapes = {value.name: value.shape for value in values if value.name and value.shape is not None}
        # the products of an op are counted one by one
        self._counted = {op for step in steps if product_of(step) for op in step.ops}

    def of(self, step: Step) -> int:
        """Those of one step."""
        product = product_of(step)
        if product is not None:
            return 2 * product.work
        found = 0
        for op in step.ops:
            if op not in self._counted:
                self._counted.add(op)
                found += flops_of(op, self._shape)
        return found + sum(out.size for out in _functions(step) if out.known)

    def _shape(self, var: Variable) -> tuple[int, ...]:
        # a gradient that is computed in place has no value of its own, and its variable's shape
        found = self._shapes.get(var.name) or self._shapes.get(variable_of(var.name))
        return tuple(max(size, 1) for size in var.shape) if found is None else found


def _functions(step: Step) -> Iterator[Value]:
    """The results of the element-wise functions of a step."""
    action = step.action
    if isinstance(action, Elementwise):
        yield from step.writes
    elif isinstance(action, Chained):
        yield from (out for _, out in action.run())
    for loop in _loops(action):
        yield from (out for _, out in loop.run)


def _loops(action: Action) -> Sequence[TiledLoop]:
    if isinstance(action, TiledLoop):
        return (action,)
    return action.loops if isinstance(action, CompiledRun) else ()


# ---------------------------------------------------------------------- kernels
def _kernel(action: Action, plan: Plan) -> str:
    library = "NumPy" if plan.target.on_host else "CuPy"
    loops = _loops(action)
    if loops:
        count = len(loops[0].run)
        kind = "compiled loop" if isinstance(action, CompiledRun) else f"{library} in blocks"
        return f"{kind} of {count} function{'s' if count > 1 else ''}"
    if isinstance(action, Chained):
        return f"{library}, {len(action.form.run)} functions"
    if isinstance(action, Elementwise):
        return f"{library} {action.function}"
    if isinstance(action, (Loop, WhileLoop)):
        return "loop"
    if isinstance(action, Branch):
        return "branch"
    calls = [item for item in (action, *getattr(action, "sources", ())) if isinstance(item, Call)]
    return _called(calls[0], library)[:_LONGEST] if calls else library


def _called(call: Call, library: str) -> str:
    callee = call.callee
    if isinstance(callee, Function):
        is_product = callee.name in _PRODUCTS and library == "NumPy"
        return f"{'BLAS' if is_product else library} {callee.name}"
    if isinstance(callee, ScopeFunction):
        return f"{callee.name} in the scope"
    owner, method = (callee.owner, callee.name) if isinstance(callee, Method) else (callee, "")
    return owner.thing.kernel_of(method) or f"{library} {owner.hint}"
