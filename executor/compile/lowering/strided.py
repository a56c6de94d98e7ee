"""Views that products read where they are: what other steps need as a copy, since they reshape what they
get or go through it many times, BLAS takes in place.

An op that copies a view (transpose, split, slice) remembers it for its output. A product asks for it; where
all readers have, nobody reads the copy, and `drop_dead` leaves it out.
"""

from __future__ import annotations

from collections.abc import Sequence

from fluidlite.executor.compile.emitter import Emitter
from fluidlite.executor.plan.values import Reshape, Same, Slices, Storage, Transpose, Value

__all__ = ["copied", "for_product", "remember_view", "reshaped_view", "source_of"]


def source_of(e: Emitter, value: Value) -> Value:
    """The view that `value` is a copy of, or itself."""
    found: Value | None = e.recall(("view", value))
    return value if found is None else found


def copied(e: Emitter, view: Value, out: Value) -> None:
    """Copy a view into a buffer, for which products may then read the view."""
    e.copy(view, out)
    remember_view(e, out, view)


def remember_view(e: Emitter, value: Value, view: Value) -> None:
    """Let products read `view` in the place of `value`, unless its memory may change before they do."""
    is_steady = view.root.storage is not Storage.PARAM or not e.builder.changes(view.root.name)
    if e.on_host and is_steady and (view.contiguous or _strides(view) is not None):
        e.remember(("view", value), view)


def reshaped_view(e: Emitter, value: Value, result: Value) -> None:
    """`result` is `value` in another shape: so is the view that products read, if its memory allows it."""
    view = source_of(e, value)
    if view is value or view.shape is None or result.shape is None:
        return
    strides = _strides(view)
    if strides is not None and _split_or_joined(view.shape, strides, result.shape) is not None:
        remember_view(e, result, e.reshape(view, result.shape))


def for_product(e: Emitter, value: Value) -> Value:
    """A stack of matrices as a product is to read it: the view where BLAS can take its matrices."""
    view = source_of(e, value)
    # most are, and to compute strides takes a fifth of lowering a product
    if view.contiguous and len(view.shape or ()) > 1:
        return view
    strides = _strides(view)
    if strides is None or len(strides) < 2:
        return value
    # BLAS wants rows or columns whose elements lie side by side
    return view if 1 in strides[-2:] else value


def _strides(value: Value) -> tuple[int, ...] | None:
    """The strides of a view in elements; None where the plan cannot tell them."""
    if value.base is None:
        return None if value.storage is Storage.LOCAL or value.shape is None else _steps(value.shape)
    if value.contiguous and value.shape is not None:
        return _steps(value.shape)
    strides = _strides(value.base)
    view = value.view
    if strides is None or isinstance(view, (Slices, Same)):
        return strides
    if isinstance(view, Transpose):
        return tuple(strides[axis] for axis in view.axes)
    assert isinstance(view, Reshape) and value.base.shape is not None
    return _split_or_joined(value.base.shape, strides, view.shape)


def _steps(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of an array in C order."""
    steps: list[int] = []
    step = 1
    for size in reversed(shape):
        steps.insert(0, step)
        step = step * size
    return tuple(steps)


def _split_or_joined(
    shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]
) -> tuple[int, ...] | None:
    """The strides of a view in another shape; None where that needs a copy."""
    old = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    found: list[int] = []
    at = 0
    new = list(wanted)
    while new:
        group = [new.pop(0)]
        if group == [1]:
            found.append(0)
            continue
        last = at + 1
        if at >= len(old):
            return None
        size, goal = old[at][0], group[0]
        while size != goal:
            if size < goal:
                # two old dimensions become one: the outer must go on where the inner ends
                if last >= len(old) or old[last - 1][1] != old[last][0] * old[last][1]:
                    return None
                size = size * old[last][0]
                last = last + 1
            elif not new:
                return None
            else:
                group.append(new.pop(0))
                goal = goal * group[-1]
        found += [step * old[last - 1][1] for step in _steps(group)]
        at = last
    return tuple(found) if at == len(old) else None
