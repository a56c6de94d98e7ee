"""Reductions over ranks in buffers of the plan, and gradients that travel together as views of one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from fluidlite.base.records import dataclass
from fluidlite.executor.comm.ring_ops import PlannedAllReduce, PlannedCollective
from fluidlite.executor.comm.transports import find_session
from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.plan.actions import Out
from fluidlite.executor.plan.values import Same, Storage, Value


@lowering("coalesce_tensor")
def _(e: Emitter) -> None:
    """The gradients are made where they are needed: in the buffer. Those that cannot be moved there are
    copied.
    """
    e.remember(("shown", e.op.outputs["FusedOutput"][0]), True)
    # then the op only makes the buffer, which its kernel does
    if not e.attr("copy_data"):
        raise CannotLower("coalesce_tensor")
    parts = [_dense(e, name) for name in e.op.inputs["Input"]]
    sizes = [math.prod(part.shape or ()) for part in parts]
    starts = list(itertools.accumulate(sizes, initial=0))
    buffer = e.out("FusedOutput", (starts[-1],), parts[0].dtype)
    names = e.op.outputs["Output"]
    pieces = [
        BufferPiece(name, start, stop, part.shape or ())
        for name, part, start, stop in zip(names, parts, starts, starts[1:], strict=False)
    ]
    for part, piece in zip(parts, pieces, strict=True):
        target = piece.of(e, buffer)
        # a value that two variables share has one memory, and cannot lie in two pieces
        is_one = parts.count(part) == 1
        if buffer.storage is Storage.BUFFER and is_one and _may_move(e, part, names):
            part.move_to(target)
        else:
            e.copy(part, target)
    e.remember(("pieces of", e.op.outputs["FusedOutput"][0]), pieces)
    _show_parts(e, buffer, pieces)


@dataclass(frozen=True)
class BufferPiece:
    """A variable that lies in a buffer with others: elements [start, stop)."""

    name: str
    start: int
    stop: int
    shape: tuple[int, ...]

    def of(self, e: Emitter, buffer: Value) -> Value:
        """The view of a version of the buffer."""
        return e.reshape(e.piece(buffer, self.start, self.stop), self.shape)


def _dense(e: Emitter, name: str) -> Value:
    """The value of a gradient: of known shape, whatever sequences it was made from."""
    value: Value = e.builder.value(e.op, "Input", name)
    if not value.known:
        raise CannotLower(name)
    return value


def _may_move(e: Emitter, part: Value, names: list[str]) -> bool:
    """True if a value is an array of its own that no other variable shows when it is used later."""
    return (
        part.storage is Storage.BUFFER
        and part.uniform is None
        and not e.builder.depth
        and not _shown(e, part, names)
    )


def _shown(e: Emitter, value: Value, names: list[str]) -> bool:
    """True if variables other than these still show the memory of a value."""
    return any(
        other.root is value.root and name not in names and e.builder.is_needed(name, e.op)
        for name, other in e.builder.visible()
    )


def _show_parts(e: Emitter, buffer: Value, pieces: Sequence[BufferPiece]) -> None:
    """Let the variables of a buffer be views of its newest version."""
    for piece in pieces:
        e.finals.append((piece.name, piece.of(e, buffer)))


@lowering("c_allreduce_sum", "c_allreduce_max", "c_allreduce_min", "c_allreduce_prod")
def _(e: Emitter) -> None:
    x = e.need("X")
    session = find_session(needs_servers=False)
    if not e.on_host and (session is None or not session.on_device(e.attr("ring_id"))):
        raise CannotLower("the ring needs the host")
    pieces = _pieces(e)
    out = _target(e, x, pieces)
    reduction = e.bind_fresh("reduce", PlannedAllReduce, e.op)
    # `starts`: a pass puts the wait where the result is first needed, and computation goes on until then
    e.run(reduction, x, Out(out), effect=True, starts=reduction)
    _show_parts(e, out, pieces)


@lowering("c_reduce_sum", "c_reduce_max", "c_reduce_min", "c_reduce_prod", "c_broadcast")
def _(e: Emitter) -> None:
    x = e.need("X")
    # after c_reduce the other ranks keep what they had, which only an op in place can leave alone
    if not e.on_host or e.op.inputs["X"] != e.op.outputs["Out"]:
        raise CannotLower("X and Out are two variables")
    pieces = _pieces(e)
    out = _target(e, x, pieces)
    e.run(e.bind_fresh("exchange", PlannedCollective, e.op), x, Out(out), effect=True)
    _show_parts(e, out, pieces)


def _pieces(e: Emitter) -> list[BufferPiece]:
    """The variables that are views of what an op reduces."""
    found: list[BufferPiece] | None = e.recall(("pieces of", e.op.inputs["X"][0]))
    # the kernel of `coalesce_tensor` made views of its array, which a reduction into another one would not
    # reach
    if found is None and e.recall(("shown", e.op.inputs["X"][0])):
        raise CannotLower("other variables are views of the result of a kernel, which is reduced in place")
    return found or []


def _target(e: Emitter, x: Value, pieces: Sequence[BufferPiece]) -> Value:
    """The value that the result of an op goes to: the memory of its input, where the op says so and nobody
    else looks at that.
    """
    name = e.op.outputs["Out"][0]
    names = [name, *(piece.name for piece in pieces)]
    if (
        e.op.inputs["X"][0] != name
        or x.root.storage is not Storage.BUFFER
        or e.persistable("Out")
        or _shown(e, x, names)
    ):
        return e.out("Out", x.shape, x.dtype, inplace=True)
    out = e.view(x, Same(), x.shape or ())
    out.fill(None)  # other ranks may have other numbers
    e.finals.append((name, out))
    return out


@lowering("c_sync_calc_stream", "c_sync_comm_stream", "depend")
def _(e: Emitter) -> None:
    """No step: whatever reads a result waits for it."""
    # values of any kind: a copy would part gradients from the buffer that they are in
    for index, name in enumerate(e.op.inputs["X"]):
        e.alias("Out", e.builder.value(e.op, "X", name), index)
