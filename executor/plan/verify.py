"""The checks that a plan must pass between any two passes.

1. Every value is defined before it is read.
2. Nobody writes memory that an older value still shows and somebody reads later; buffers that lie in the same
   place of the pool are not in use at the same time.
3. Shapes and types agree, no temporary is wider than the widest array that it is computed from, and what is
   written through a view is written to its base.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from fluidlite.executor.plan.actions import Chained, CompiledRun, Elementwise, TiledLoop
from fluidlite.executor.plan.aliases import stale_reads
from fluidlite.executor.plan.plan import BufferLayout, Plan
from fluidlite.executor.plan.steps import Step, flat, product_of
from fluidlite.executor.plan.values import Reshape, Same, Slices, Storage, Transpose, Value
from fluidlite.ops.kernels.scalar import PREDICATES

__all__ = ["LOWERING", "PlanError", "verify"]


LOWERING = "lowering"
"""The stage before the first pass: old versions of variables may still be read there."""


class PlanError(AssertionError):
    """A pass has left a plan that would not compute what its program says."""


def verify(plan: Plan, after: str, before: Plan | None = None) -> None:
    """PlanError, naming the stage and the step, where a plan breaks a rule.

    `before` is the plan as the pass found it, which was verified after another one: shapes are asked of new
    steps alone, and nothing of a plan that the pass left as it was. Most passes find nothing to do.
    """
    if before is not None and _is_unchanged(plan, before):
        return
    _Definitions(plan, after).check()
    known = set() if before is None else set(flat(before.steps))
    for step in flat(plan.steps):
        if step in known:
            continue
        _check_shapes(step, after)
        if not step.is_view:
            for value in step.writes:
                _check_reached(step, value, after)
    if after != LOWERING:
        _check_aliases(plan, after)
    if plan.layout is not None:
        _check_layout(plan, plan.layout, after)


def _is_unchanged(plan: Plan, before: Plan) -> bool:
    """True if two plans have the same steps, fetches and places of buffers."""
    pairs = itertools.chain(
        itertools.zip_longest(plan.steps, before.steps), itertools.zip_longest(plan.fetches, before.fetches)
    )
    return plan.layout is before.layout and all(new is old for new, old in pairs)


def _fail(after: str, step: Step | None, what: str) -> NoReturn:
    where = ""
    if step is not None and step.op is not None:
        where = f"\n  op {step.op.type!r} built at {step.op.where}"
    raise PlanError(f"after {after}: {what}{where}")


def _shown(value: Value) -> str:
    return f"{value} ({value.name or 'temporary'}, {value.dtype}{list(value.shape or ())})"


# ---------------------------------------------------------------------- 1. defined before use
class _Definitions:
    """One walk over the steps of a plan, with the memory that is written so far."""

    def __init__(self, plan: Plan, after: str) -> None:
        self.plan = plan
        self.after = after

    def check(self) -> None:
        """Check every step, then the fetches."""
        defined: set[Any] = set()
        self._walk(self.plan.steps, defined)
        for value in self.plan.fetches:
            self._read(value, None, defined)

    def _walk(self, steps: Iterable[Step], defined: set[Any]) -> None:
        for step in steps:
            if not step.is_view:
                for value in step.reads:
                    self._read(value, step, defined)
            # by root: a buffer that gradients travel in is written piece by piece, through views of it
            defined.update(value.root for value in step.writes if not step.is_view)
            if step.body is not None:
                # a copy: a loop may run no step, so nothing after it may count on what its body wrote
                self._walk(step.body, set(defined))

    def _read(self, value: Value, step: Step | None, defined: set[Any]) -> None:
        root = value.root
        if root.persists or root.storage in (Storage.FEED, Storage.CONST) or root in defined:
            return
        _fail(self.after, step, f"{_shown(value)} is read before anything writes it")


# ---------------------------------------------------------------------- 3. shapes and types
def _check_shapes(step: Step, after: str) -> None:
    if step.is_view:
        _check_view(step, step.writes[0], after)
    elif isinstance(step.action, Elementwise):
        _check_elementwise(step, step.action, step.writes[0], after)
    elif isinstance(step.action, (TiledLoop, CompiledRun)):
        for loop in [step.action] if isinstance(step.action, TiledLoop) else step.action.loops:
            for action, out in loop.run:
                _check_elementwise(step, action, out, after)
    elif isinstance(step.action, Chained):
        for action, out in step.action.run():
            _check_elementwise(step, action, out, after)
    elif product_of(step) is not None:
        _check_product(step, after)


def _check_view(step: Step, value: Value, after: str) -> None:
    """A view has the shape that its expression gives of its base."""
    base = value.base
    view = value.view
    if base is None or base.shape is None or value.shape is None:
        return
    fits = value.dtype == base.dtype
    if isinstance(view, Reshape):
        fits = fits and view.shape == value.shape and value.size == base.size
    elif isinstance(view, Transpose):
        fits = fits and tuple(base.shape[axis] for axis in view.axes) == value.shape
    elif isinstance(view, Slices):
        fits = fits and _sliced(base.shape, view) == value.shape
    elif isinstance(view, Same):
        fits = fits and base.shape == value.shape
    if not fits:
        _fail(after, step, f"{view} of {_shown(base)} is not {_shown(value)}")


def _check_reached(step: Step, value: Value, after: str) -> None:
    """A write to a view reaches its base: a reshape of what does not lie in order is a copy."""
    shown: Value | None = value
    while shown is not None and shown.base is not None:
        if isinstance(shown.view, Reshape) and not shown.base.lies_in_order:
            _fail(
                after,
                step,
                f"a write to {_shown(value)} would be lost: {_shown(shown.base)} is not contiguous",
            )
        shown = shown.base


def _sliced(shape: Sequence[int], view: Slices) -> tuple[int, ...] | None:
    sizes = list(shape)
    for axis, bounds in enumerate(view.ranges):
        if bounds is not None:
            start, stop = bounds
            if not 0 <= start <= stop <= shape[axis]:
                return None
            sizes[axis] = stop - start
    return tuple(sizes)


def _check_elementwise(step: Step, action: Elementwise, out: Value, after: str) -> None:
    """The operands broadcast to the output, which is as wide as they are."""
    operands = [item for item in action.operands if isinstance(item, Value)]
    shapes = [value.shape for value in operands if value.shape is not None]
    if len(shapes) < len(operands) or out.shape is None or out.dtype is None:
        _fail(after, step, f"{action.function} of values whose shapes are not known")
    if not _broadcast(shapes, out.shape):
        _fail(
            after, step, f"{action.function} of {', '.join(map(_shown, operands))} does not fit {_shown(out)}"
        )
    if action.function in PREDICATES and out.dtype != np.dtype(bool):
        _fail(after, step, f"{action.function} gives booleans, not {_shown(out)}")
    # adam once computed (1 - beta) * grad in float64 because 1 - beta was an array of its own; outputs are
    # left out, since their type is the program's choice
    # truth values have no say in the type of numbers beside them
    dtypes = [value.dtype for value in operands if value.dtype is not None]
    widths = [dtype.itemsize for dtype in dtypes if dtype != np.dtype(bool)]
    if widths and not out.name and out.storage is Storage.BUFFER and out.dtype.itemsize > max(widths):
        _fail(after, step, f"the temporary {_shown(out)} is wider than {', '.join(map(_shown, operands))}")


def _broadcast(shapes: Sequence[tuple[int, ...]], to: tuple[int, ...]) -> bool:
    """True if arrays of these shapes, with one of the shape `to`, give that shape."""
    if all(shape == to for shape in shapes):  # most do, and NumPy takes 5 us to say so
        return True
    try:
        return np.broadcast_shapes(to, *shapes) == to
    except ValueError:
        return False


def _check_product(step: Step, after: str) -> None:
    """Rows of the first operand by columns of the second."""
    product = product_of(step)
    assert product is not None
    left = product.left.shape
    right = product.right.shape
    out = product.out.shape
    if left is None or right is None or out is None:
        _fail(after, step, "a product of values whose shapes are not known")
    inner = right[-2] if len(right) > 1 else right[-1]
    if not left or left[-1] != inner:
        _fail(after, step, f"{_shown(product.left)} times {_shown(product.right)}")
    # a vector has no rows (on the left) or no columns (on the right); a stack of matrices may come from
    # either side, and stands in front of the result's rows
    rows = left[:-1]
    columns = right[-1:] if len(right) > 1 else ()
    stack = right[:-2] if len(rows) == 1 else rows[:-1]
    expected = (*rows, *columns)
    if len(right) > 2 or len(rows) > 1:
        expected = (*stack, *rows[-1:], *columns)
    if expected != out:
        _fail(
            after, step, f"{_shown(product.left)} times {_shown(product.right)} is not {_shown(product.out)}"
        )


# ---------------------------------------------------------------------- 2. live aliases
def _check_aliases(plan: Plan, after: str) -> None:
    """No view of a persistable variable is read after the variable has changed in place."""
    for value in stale_reads(plan.steps, plan.fetches):
        _fail(after, None, f"{_shown(value)} is read after {value.root.name!r} has changed")


def _check_layout(plan: Plan, layout: BufferLayout, after: str) -> None:
    """Each buffer still holds its own value when it is read: walks the steps with the owner of every
    place.
    """
    owners = _Owners(layout.offsets, after)
    owners.walk(plan.steps)
    for value in plan.fetches:
        owners.read(value, None)


class _Owners:
    """The buffer whose value lies in each range of the pool."""

    def __init__(self, offsets: Mapping[Value, int], after: str) -> None:
        self.offsets = offsets
        self.after = after
        self.ranges: dict[Value, tuple[int, int]] = {}

    def walk(self, steps: Iterable[Step]) -> None:
        """Follow the steps as they run; the body of a loop may run again after its last step."""
        for step in steps:
            if step.is_view:
                continue
            for value in step.reads:
                self.read(value, step)
            for value in (*step.temps, *step.writes):
                self.write(value)
            if step.body is not None:
                self.walk(step.body)
                # what a later step of the loop reads from outside must have survived the step before it
                self.walk(step.body)

    def read(self, value: Value, step: Step | None) -> None:
        """Check that a value's place still holds it."""
        root = value.root
        if root.storage is Storage.BUFFER and root not in self.ranges:
            _fail(self.after, step, f"{_shown(value)} is read from memory that another buffer has taken over")

    def write(self, value: Value) -> None:
        """A value takes its place; what lay there is gone."""
        root = value.root
        if root.storage is not Storage.BUFFER:
            return
        start = self.offsets[root]
        stop = start + root.nbytes
        # linear in the live buffers, which are few; only tests pay for it
        gone = [other for other, (low, high) in self.ranges.items() if low < stop and start < high]
        for other in gone:
            del self.ranges[other]
        self.ranges[root] = (start, stop)
