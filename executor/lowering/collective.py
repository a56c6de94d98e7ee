"""Reductions over ranks into buffers of the plan, and gradients that travel together as views of one."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from fluidlite.executor.comm.ring_ops import Reduction
from fluidlite.executor.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.plan_ir import Storage, Value


def _pack(buffer: Any, *parts: Any) -> None:
    """Lay arrays out one behind the other."""
    np.concatenate([part.reshape(-1) for part in parts], out=buffer)


def _dense(e: Emitter, name: str) -> Value:
    """The value of a gradient: of known shape, whatever sequences it was made from."""
    value: Value = e.builder.value(e.op, "Input", name)
    if not value.known:
        raise CannotLower(name)
    return value


@lowering("coalesce_tensor")
def _(e: Emitter) -> None:
    if not e.on_host or not e.attr("copy_data"):
        raise CannotLower("coalesce_tensor")
    parts = [_dense(e, name) for name in e.op.inputs["Input"]]
    sizes = [math.prod(part.shape or ()) for part in parts]
    buffer = e.out("FusedOutput", (sum(sizes),), parts[0].dtype)
    e.line(f"{e.bind('pack', _pack)}({', '.join(map(str, [buffer, *parts]))})", parts, [buffer])
    starts = np.cumsum([0, *sizes]).tolist()
    names = e.op.outputs["Output"]
    layout = [(name, start, stop, part.shape) for name, start, stop, part in zip(names, starts, starts[1:], parts, strict=False)]
    e.remember(("layout", e.op.outputs["FusedOutput"][0]), layout)
    _show_parts(e, buffer, layout)


def _show_parts(e: Emitter, buffer: Any, layout: list[Any]) -> None:
    """Let the variables of a buffer be views of its newest version."""
    for name, start, stop, shape in layout:
        e.finals.append((name, e.view(buffer, f"{{}}[{start}:{stop}].reshape({tuple(shape)})", shape)))


@lowering("c_allreduce_sum", "c_allreduce_max", "c_allreduce_min", "c_allreduce_prod")
def _(e: Emitter) -> None:
    if not e.on_host:
        raise CannotLower("on a device")
    x = e.need("X")
    layout = e.remembered(("layout", e.op.inputs["X"][0]))
    if layout is None and x.root.storage == Storage.LOCAL and e.op.inputs["X"] == e.op.outputs["Out"]:
        raise CannotLower("what a kernel made may be what other variables are views of: it is reduced in place")
    out = e.out("Out", x.shape, x.dtype, inplace=True)
    reduction = e.bind_fresh("reduce", Reduction, e.op)
    e.line(f"{reduction}({x}, {out})\n{reduction}.wait()", [x], [out], effect=True)
    _show_parts(e, out, layout or [])


@lowering("c_sync_calc_stream", "c_sync_comm_stream")
def _(e: Emitter) -> None:
    for index, name in enumerate(e.op.inputs["X"]):             # of any kind: a copy would part gradients from the buffer they are in
        e.alias("Out", e.builder.value(e.op, "X", name), index)
