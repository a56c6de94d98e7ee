"""Repetition: one broadcast copy writes an array to all its places; a gradient is summed over them."""

from __future__ import annotations

from collections.abc import Sequence

from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering, lowering_of_gradients
from fluidlite.executor.compile.lowering.device import takes
from fluidlite.executor.compile.lowering.reduce import sum_axes
from fluidlite.executor.plan.values import Value

# numbers that only a run knows
_COMPUTED = (
    "ExpandTimes",
    "expand_times_tensor",
    "RepeatTimes",
    "repeat_times_tensor",
    "Shape",
    "expand_shapes_tensor",
)


def _places(shape: Sequence[int], full: Sequence[int]) -> tuple[list[int], list[int]]:
    """The shape of an array and of its copies, in which a dimension that is repeated, and is more than one
    element, has the number of copies in front of it.
    """
    once: list[int] = []
    copies: list[int] = []
    for have, want in zip((1,) * (len(full) - len(shape)) + tuple(shape), full, strict=True):
        if have == want or have == 1:
            once.append(have)
            copies.append(want)
        else:
            once += [1, have]
            copies += [want // have, have]
    return once, copies


def _check(e: Emitter, x: Value) -> None:
    if any(e.op.inputs.get(slot) for slot in _COMPUTED):
        raise CannotLower("sizes that are computed")
    if not x.size:
        raise CannotLower("nothing to repeat")


@lowering("expand", "expand_as", "expand_as_v2", "expand_v2", "tile")
def _repeat(e: Emitter) -> None:
    x = e.need("X")
    assert x.shape is not None
    _check(e, x)
    full = e.inferred_shape("Out")
    once, copies = _places(x.shape, full)
    out = e.out("Out", full, x.dtype)
    e.elementwise("x", e.reshape(out, copies), x=e.reshape(x, once))


@lowering_of_gradients(_repeat)
def _(e: Emitter) -> None:
    x = e.need("X")
    d = e.need("Out@GRAD")
    assert x.shape is not None and d.shape is not None
    _check(e, x)
    if not takes(e, d.dtype):
        raise CannotLower("sums in another dtype")
    once, copies = _places(x.shape, d.shape)
    axes = tuple(axis for axis, (have, want) in enumerate(zip(once, copies, strict=True)) if have != want)
    out = e.out("X@GRAD", x.shape, d.dtype)
    sum_axes(e, e.reshape(d, copies), axes, out)
