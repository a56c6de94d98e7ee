"""Reductions over ranks in buffers of the plan, and gradients that travel together as views of one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fluidlite.executor.comm.ring_ops import Exchange, Reduction
from fluidlite.executor.comm.session import current, of_process
from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.plan_ir import Storage, Value


@lowering("coalesce_tensor")
def _(e: Emitter) -> None:
    """The gradients are made where they are needed: in the buffer. Those that cannot be moved there are
    copied.
    """
    e.remember(("shown", e.op.outputs["FusedOutput"][0]), True)
    if not e.attr("copy_data"):
        raise CannotLower("coalesce_tensor")
    parts = [_dense(e, name) for name in e.op.inputs["Input"]]
    starts = np.cumsum([0, *(math.prod(part.shape or ()) for part in parts)]).tolist()
    buffer = e.out("FusedOutput", (starts[-1],), parts[0].dtype)
    names = e.op.outputs["Output"]
    layout = [
        (name, f"{{}}[{start}:{stop}].reshape({tuple(part.shape or ())})", part.shape)
        for name, part, start, stop in zip(names, parts, starts, starts[1:], strict=False)
    ]
    for part, (_, place, shape) in zip(parts, layout, strict=True):
        if buffer.storage == Storage.BUFFER and parts.count(part) == 1 and _may_move(e, part, names):
            part.storage, part.base, part.expression = Storage.VIEW, buffer, place
        else:
            target = e.view(buffer, place, shape or ())
            e.line(f"copyto({target}, {part})", [part], [target])
    e.remember(("layout", e.op.outputs["FusedOutput"][0]), layout)
    _show_parts(e, buffer, layout)


def _dense(e: Emitter, name: str) -> Value:
    """The value of a gradient: of known shape, whatever sequences it was made from."""
    value: Value = e.builder.value(e.op, "Input", name)
    if not value.known:
        raise CannotLower(name)
    return value


def _may_move(e: Emitter, part: Value, names: list[str]) -> bool:
    """Whether a value is an array of its own that no other variable shows when it is used later."""
    return (
        part.storage == Storage.BUFFER
        and part.uniform is None
        and not e.builder.depth
        and not _shown(e, part, names)
    )


def _shown(e: Emitter, value: Value, names: list[str]) -> bool:
    """Whether variables other than these still show the memory of a value."""
    return any(
        other.root is value.root and name not in names and e.builder.is_needed(name, e.op)
        for name, other in e.builder.env.items()
    )


def _show_parts(e: Emitter, buffer: Value, layout: list[Any]) -> None:
    """Let the variables of a buffer be views of its newest version."""
    for name, place, shape in layout:
        e.finals.append((name, e.view(buffer, place, shape)))


@lowering("c_allreduce_sum", "c_allreduce_max", "c_allreduce_min", "c_allreduce_prod")
def _(e: Emitter) -> None:
    x = e.need("X")
    session = current() or of_process(False)
    if not e.on_host and (session is None or not session.on_device(e.attr("ring_id"))):
        raise CannotLower("the ring needs the host")
    layout = _layout(e)
    out = _target(e, x, layout)
    reduction = e.bind_fresh("reduce", Reduction, e.op)
    e.line(f"{reduction}({x}, {out})", [x], [out], effect=True)
    e.steps[-1].starts = reduction
    _show_parts(e, out, layout)


@lowering("c_reduce_sum", "c_reduce_max", "c_reduce_min", "c_reduce_prod", "c_broadcast")
def _(e: Emitter) -> None:
    x = e.need("X")
    if not e.on_host or e.op.inputs["X"] != e.op.outputs["Out"]:
        raise CannotLower("X and Out are two variables")
    layout = _layout(e)
    out = _target(e, x, layout)
    e.line(f"{e.bind_fresh('exchange', Exchange, e.op)}({x}, {out})", [x], [out], effect=True)
    _show_parts(e, out, layout)


def _layout(e: Emitter) -> list[Any]:
    """The variables that are views of what an op reduces."""
    found: list[Any] | None = e.remembered(("layout", e.op.inputs["X"][0]))
    if found is None and e.remembered(("shown", e.op.inputs["X"][0])):
        raise CannotLower("other variables are views of what a kernel made: it is reduced in place")
    return found or []


def _target(e: Emitter, x: Value, layout: list[Any]) -> Value:
    """Where the result of an op goes: into the memory of its input, where the op says so and nobody else
    looks at that.
    """
    name = e.op.outputs["Out"][0]
    names = [name, *(part for part, _, _ in layout)]
    if (
        e.op.inputs["X"][0] != name
        or x.root.storage != Storage.BUFFER
        or e.persistable("Out")
        or _shown(e, x, names)
    ):
        return e.out("Out", x.shape, x.dtype, inplace=True)
    out = e.view(x, "{}", x.shape or ())
    out.uniform = None
    e.finals.append((name, out))
    return out


@lowering("c_sync_calc_stream", "c_sync_comm_stream")
def _(e: Emitter) -> None:
    """What reads a result waits for it, so nothing else has to."""
    for index, name in enumerate(
        e.op.inputs["X"]
    ):  # of any kind: a copy would part gradients from the buffer they are in
        e.alias("Out", e.builder.value(e.op, "X", name), index)
