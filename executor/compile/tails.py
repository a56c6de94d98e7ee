"""Tails of convolutions: a bias, batch_norm and relu that follow one of fixed filters are finished with it.

A rule that finds the beginning of its input writes the convolution once more, with one step more behind it;
what computed its input is then read by nobody, and dropped. Only parameters that the program does not write
may be put into filters: what is kept of them is made anew when any persistable variable has changed. Where
oneDNN convolves, relu stays a step of its own: that of the library turns NaN into 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from fluidlite.base.records import dataclass
from fluidlite.executor.compile.emitter import Emitter
from fluidlite.executor.compile.layout import in_program_order, lays_out
from fluidlite.executor.plan.actions import Bound, Out
from fluidlite.executor.plan.sizes import about
from fluidlite.executor.plan.values import Value

if TYPE_CHECKING:
    # a program without convolutions imports none
    from fluidlite.ops.kernels.convolution import Geometry

__all__ = ["begin", "extend", "is_fixed", "tail_of"]


# of an emitter, a geometry, a dtype, a number of threads, and whether the filters are fixed
Convolve: TypeAlias = "Callable[[Emitter, Geometry, Any, int, bool], Bound]"


@dataclass(frozen=True)
class ConvTail:
    """A convolution, and the steps behind it so far.

    `convolve` makes the object that computes it; `is_fast`: another kernel than NumPy's may.
    """

    geometry: Geometry
    source: Value
    w: Value
    threads: int
    convolve: Convolve
    is_fast: bool
    statistics: tuple[Value, ...] | None = None
    epsilon: float = 0.0
    bias: Value | None = None
    relu: bool = False

    @property
    def takes_relu(self) -> bool:
        """True if relu may be the next step."""
        return not self.relu and not self.is_fast


def is_fixed(e: Emitter, *names: str) -> bool:
    """True if variables keep their values while the program runs."""
    return all(e.builder.is_persistable(name) and not e.builder.changes(name) for name in names)


def begin(
    e: Emitter, geometry: Geometry, source: Value, w: Value, out: Value, convolve: Convolve, is_fast: bool
) -> None:
    """Remember the convolution that computes `out`, if a tail may follow it; the rest as in `ConvTail`."""
    is_ours = lays_out(e, source) and all(size > 0 for size in geometry.out)
    if is_ours and out.order is not None and is_fixed(e, *e.op.inputs["Filter"]):
        threads = e.threads if about(source.size) >= 1 << 15 else 1
        e.remember(("tail", out.root), ConvTail(geometry, source, w, threads, convolve, is_fast))


def tail_of(e: Emitter, slot: str) -> ConvTail | None:
    """The convolution of which the op's input is the result so far; None where it is read by others, too."""
    value = e.laid_need(slot)
    found: ConvTail | None = e.recall(("tail", value.root))
    if found is None or value.order is None or e.builder.is_needed(e.op.inputs[slot][0], e.op):
        return None
    return found


def extend(e: Emitter, tail: ConvTail, slot: str, like: Value, **more: Any) -> None:
    """Write the convolution with one step more into an output."""
    tail = replace(tail, **more)
    assert like.shape is not None and like.order is not None
    base = e.published(slot, like.shape, like.dtype, like.order)
    out = in_program_order(e, base, like.order)
    plan = tail.convolve(e, tail.geometry, like.dtype, tail.threads, True)
    e.remember(("tail", base), tail)
    steps = (tail.statistics, tail.epsilon, tail.bias, tail.relu)
    e.run(plan, tail.source, tail.w, steps, Out(out), method="forward_to_tail")
