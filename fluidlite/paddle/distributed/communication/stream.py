"""`paddle.distributed.stream`: what ranks exchange. Variables get ops in the program; arrays are exchanged at
once, and results are written into them.

Every function takes `group` (all ranks by default; a rank that is not a member does nothing), `sync_op` (for
arrays: False gives a Task to wait for) and `use_calc_stream`, which only devices know: here a result is there
for whoever reads it next. `src` and `dst` are ranks of the job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.errors import ArgumentError
from fluidlite.executor.comm.rings import Ring
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.paddle.build import append
from fluidlite.paddle.distributed.communication.group import Group
from fluidlite.paddle.distributed.communication.tensors import (
    Members,
    ReduceOp,
    Task,
    check_tensor,
    fill,
    op_of,
    reduction,
    write,
)
from fluidlite.paddle.programs import begin
from fluidlite.paddle.tensor.creation import assign
from fluidlite.paddle.tensor.manipulation import concat, split

__all__ = [
    "all_gather",
    "all_reduce",
    "alltoall",
    "alltoall_single",
    "broadcast",
    "gather",
    "recv",
    "reduce",
    "reduce_scatter",
    "scatter",
    "send",
]


def _begin(tensor: Any, what: str, function: str, group: Group | None) -> tuple[Members, bool]:
    """The members of a call, and True if its tensor is a Variable; ArgumentError where it is no tensor."""
    return Members(group), check_tensor(tensor, what, function)


def _done() -> Task:
    return Task()


# ---------------------------------------------------------------------- reductions
def all_reduce(
    tensor: Any,
    op: int = ReduceOp.SUM,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task | None:
    """The reduction of all ranks' tensors, in place."""
    how = reduction(op)
    members, in_program = _begin(tensor, "tensor", "all_reduce", group)
    if members.rank < 0:
        return None
    if in_program:
        attrs = {"use_calc_stream": sync_op, "use_model_parallel": False}
        op_of(members, f"c_allreduce_{how}", tensor, attrs, out=tensor)
        _divide_in_program(tensor, op, members.size)
        return None
    request = members.ring.start_all_reduce(tensor, tensor, how)

    def finish() -> None:
        request.wait()
        _divide(tensor, op, members.size)

    task = Task(finish)
    if sync_op:
        task.wait()
    return task


def _divide_in_program(tensor: Variable, op: int, count: int) -> None:
    if op == ReduceOp.AVG:
        attrs = {"scale": 1.0 / count, "bias": 0.0, "bias_after_scale": True}
        append("scale", {"X": [tensor]}, attrs, dtype=tensor.dtype, out=tensor)


def _divide(array: Any, op: int, count: int) -> None:
    if op != ReduceOp.AVG:
        return
    if array.dtype.kind in "iub":
        raise ArgumentError(f"the mean of {array.dtype} is not an integer: reduce floats, or take the sum")
    array *= array.dtype.type(1.0 / count)


def reduce(
    tensor: Any,
    dst: int = 0,
    op: int = ReduceOp.SUM,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task | None:
    """The reduction of all ranks' tensors for rank `dst`, in place; the others keep what they have."""
    how = reduction(op)
    members, in_program = _begin(tensor, "tensor", "reduce", group)
    if members.rank < 0:
        return None
    root = members.number(dst, "dst")
    if in_program:
        attrs = {"root_id": root, "use_calc_stream": sync_op}
        op_of(members, f"c_reduce_{how}", tensor, attrs, out=tensor)
        if members.rank == root:
            _divide_in_program(tensor, op, members.size)
        return None
    write(tensor, members.ring.reduce(tensor, how, root))
    if members.rank == root:
        _divide(tensor, op, members.size)
    return _done()


def reduce_scatter(
    tensor: Any,
    tensor_or_tensor_list: Any,
    op: int = ReduceOp.SUM,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task | None:
    """This rank's part of the reduction of all ranks' tensors, which come as a list with a tensor for each
    rank, or as one tensor whose rows the ranks share.
    """
    how = reduction(op)
    members, in_program = _begin(tensor, "tensor", "reduce_scatter", group)
    if members.rank < 0:
        return None
    whole = _joined(tensor_or_tensor_list, members.size, "reduce_scatter")
    if not in_program:
        write(tensor, members.ring.reduce_scatter(whole, how))
        _divide(tensor, op, members.size)
        return _done()
    if how == "sum":
        op_of(members, "reduce_scatter", whole, {"nranks": members.size}, out=tensor, slots=("x", "out"))
    else:  # the op adds
        total = op_of(members, f"c_allreduce_{how}", whole, {"use_calc_stream": sync_op})
        assign(split(total, members.size, 0)[members.rank], tensor)
    _divide_in_program(tensor, op, members.size)
    return None


def _joined(given: Any, size: int, function: str) -> Any:
    """The parts of all ranks as one tensor, joined along dimension 0."""
    if not isinstance(given, (list, tuple)):
        check_tensor(given, "tensor", function)
        return given
    in_program = [check_tensor(part, "tensor_list", function) for part in given]
    if len(given) != size:
        raise ArgumentError(
            f"{function} needs a tensor for each of the {size} ranks, but was given {len(given)}"
        )
    if all(in_program):
        return concat(list(given), 0)
    return _stacked(given)


def _stacked(parts: Sequence[Any]) -> Any:
    """Arrays joined along dimension 0, on the device where they lie there."""
    first = parts[0]
    rows = sum(len(part) for part in parts)
    joined = np.empty_like(first, shape=(rows, *first.shape[1:]))
    start = 0
    for part in parts:
        joined[start : start + len(part)] = part
        start += len(part)
    return joined


# ---------------------------------------------------------------------- from all, to all
def all_gather(
    tensor_or_tensor_list: Any,
    tensor: Any,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task | None:
    """Every rank's tensor: in a list, or joined along dimension 0 in one array."""
    members, in_program = _begin(tensor, "tensor", "all_gather", group)
    if members.rank < 0:
        return None
    target = tensor_or_tensor_list
    if not in_program:
        _give(target, members.ring.all_gather(tensor))
        return _done()
    if not isinstance(target, list):
        raise RuntimeError("Only support passing a tensor list to `all_gather` in static graph mode now.")
    attrs = {"use_calc_stream": sync_op, "nranks": members.size}
    whole = op_of(members, "c_allgather", tensor, attrs)
    target[:] = split(whole, members.size, 0)
    return None


def _give(target: Any, parts: Sequence[Any]) -> None:
    """Write parts into a list, or joined into one array."""
    if isinstance(target, list):
        fill(target, parts)
    else:
        check_tensor(target, "tensor_or_tensor_list", "all_gather")
        write(target, _stacked(parts))


def gather(
    tensor: Any,
    gather_list: list[Any] | None = None,
    dst: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task | None:
    """Every rank's tensor in the list of rank `dst`. In a program every rank's values go to all: 2.6.2 has no
    op for it.
    """
    members, in_program = _begin(tensor, "tensor", "gather", group)
    if members.rank < 0:
        return None
    root = members.number(dst, "dst")
    is_root = members.rank == root
    if is_root and gather_list is None:
        raise ArgumentError(f"rank {dst} gathers and needs a list for the results: gather_list=[]")
    if not in_program:
        found = members.ring.gather(tensor, root)
        if is_root and gather_list is not None:
            fill(gather_list, found)
        return _done()
    whole = op_of(members, "c_allgather", tensor, {"use_calc_stream": sync_op, "nranks": members.size})
    if is_root and gather_list is not None:
        gather_list[:] = split(whole, members.size, 0)
    return None


def broadcast(
    tensor: Any, src: int, group: Group | None = None, sync_op: bool = True, use_calc_stream: bool = False
) -> Task | None:
    """The tensor of rank `src` for all ranks, in place."""
    members, in_program = _begin(tensor, "tensor", "broadcast", group)
    if members.rank < 0:
        return None
    root = members.number(src, "src")
    if in_program:
        op_of(members, "c_broadcast", tensor, {"root": root, "use_calc_stream": sync_op}, out=tensor)
        return None
    write(tensor, members.ring.broadcast(tensor, root))
    return _done()


def scatter(
    tensor: Any,
    tensor_or_tensor_list: Any = None,
    src: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task | None:
    """This rank's part of what rank `src` has: a list with a tensor for each rank, or rows to share."""
    members, in_program = _begin(tensor, "tensor", "scatter", group)
    if members.rank < 0:
        return None
    root = members.number(src, "src")
    given = tensor_or_tensor_list
    if members.rank != root:
        given = [tensor] * members.size  # only the form counts, which is that of the root
    elif given is None or (isinstance(given, (list, tuple)) and not given):
        raise ArgumentError(f"rank {src} scatters and needs one tensor for each rank: tensor_list")
    whole = _joined(given, members.size, "scatter")
    if not in_program:
        write(tensor, members.ring.scatter(whole, root))
        return _done()
    attrs = {"root": root, "use_calc_stream": sync_op, "nranks": members.size}
    op_of(members, "c_scatter", whole, attrs, out=tensor)
    return None


# ---------------------------------------------------------------------- all with all
def alltoall(
    out_tensor_or_tensor_list: Any,
    in_tensor_or_tensor_list: Any,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task | None:
    """Part r of this rank's tensors to rank r, and the others' parts for this rank: lists with a tensor for
    each rank, or tensors whose rows the ranks share.
    """
    members = Members(group)
    if members.rank < 0:
        return None
    target = out_tensor_or_tensor_list
    given = in_tensor_or_tensor_list
    if isinstance(given, (list, tuple)) and given and not isinstance(given[0], Variable):
        _joined(given, members.size, "alltoall")  # for its checks
        fill(target, members.ring.all_to_all(given))
        return _done()
    whole = _joined(given, members.size, "alltoall")
    if isinstance(whole, Variable):
        _exchange_in_program(members, target, whole, sync_op)
        return None
    members.ring.check_shares(whole)
    parts = np.split(whole, members.size) if isinstance(whole, np.ndarray) else _shares(whole, members.size)
    _give(target, members.ring.all_to_all(parts))
    return _done()


def _shares(array: Any, size: int) -> list[Any]:
    rows = len(array) // size
    return [array[rank * rows : (rank + 1) * rows] for rank in range(size)]


def _exchange_in_program(members: Members, target: Any, whole: Variable, sync_op: bool) -> None:
    is_list = isinstance(target, list)
    if is_list and target:
        raise ValueError("The 'out_tensor_list' for all_to_all must be an empty list.")
    attrs = {"use_calc_stream": sync_op}
    found = op_of(members, "alltoall", whole, attrs, out=None if is_list else target)
    if is_list:
        target.extend(split(found, members.size, 0))


def alltoall_single(
    out_tensor: Any,
    in_tensor: Any,
    out_split_sizes: Sequence[int] | None = None,
    in_split_sizes: Sequence[int] | None = None,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task | None:
    """Rows of this rank to all ranks, and rows of all ranks for this one: as many as the sizes say for each
    rank, by default equal numbers.
    """
    members, in_program = _begin(in_tensor, "in_tensor", "alltoall_single", group)
    if members.rank < 0:
        return None
    for sizes, name in ((in_split_sizes, "in_split_sizes"), (out_split_sizes, "out_split_sizes")):
        if sizes and len(sizes) != members.size:
            raise ArgumentError(f"{name} has {len(sizes)} numbers, but there are {members.size} ranks")
    if in_program:
        _rows_in_program(members, out_tensor, in_tensor, out_split_sizes, in_split_sizes, sync_op)
        return None
    if in_split_sizes:
        ends = np.cumsum(in_split_sizes).tolist()
        parts = [in_tensor[end - rows : end] for end, rows in zip(ends, in_split_sizes, strict=True)]
    else:
        members.ring.check_shares(in_tensor)
        parts = _shares(in_tensor, members.size)
    write(out_tensor, _stacked(members.ring.all_to_all(parts)))
    return _done()


def _rows_in_program(
    members: Members,
    out_tensor: Variable,
    in_tensor: Variable,
    out_split_sizes: Sequence[int] | None,
    in_split_sizes: Sequence[int] | None,
    sync_op: bool,
) -> None:
    """`alltoall` for equal numbers; else the exchange of mixtures of experts, with one expert a rank."""
    if not in_split_sizes and not out_split_sizes:
        op_of(members, "alltoall", in_tensor, {"use_calc_stream": sync_op}, out=out_tensor)
        return
    sent = in_split_sizes or [in_tensor.shape[0] // members.size] * members.size
    received = out_split_sizes or [out_tensor.shape[0] // members.size] * members.size
    inputs = {
        "X": [in_tensor],
        "local_count": [assign(np.array(sent, "int64"))],
        "global_count": [assign(np.array(received, "int64"))],
    }
    attrs = {**members.ring_attrs(), "use_calc_stream": sync_op}
    append("global_scatter", inputs, attrs, dtype=in_tensor.dtype, out=out_tensor)


# ---------------------------------------------------------------------- from rank to rank
def send(
    tensor: Any, dst: int = 0, group: Group | None = None, sync_op: bool = True, use_calc_stream: bool = False
) -> Task | None:
    """Send a tensor to rank `dst`, which receives it."""
    members, in_program = _begin(tensor, "tensor", "send", group)
    if members.rank < 0:
        return None
    peer = members.number(dst, "dst")
    if in_program:
        attrs = {**members.ring_attrs(), "peer": peer, "use_calc_stream": sync_op, "dynamic_shape": False}
        _append_without_output("send_v2", tensor, attrs)
        return None
    members.ring.send(tensor, peer)
    return _done()


def _append_without_output(op_type: str, tensor: Variable, attrs: dict[str, Any]) -> None:
    begin()
    LayerHelper(op_type).append_op(type=op_type, inputs={"X": [tensor]}, outputs={}, attrs=attrs)


def recv(
    tensor: Any, src: int = 0, group: Group | None = None, sync_op: bool = True, use_calc_stream: bool = False
) -> Task | None:
    """The next tensor that rank `src` sends to this one, in place. Without `sync_op` it is received when the
    task is waited for: tasks of one sender are waited for in the order in which they were made.
    """
    members, in_program = _begin(tensor, "tensor", "recv", group)
    if members.rank < 0:
        return None
    peer = members.number(src, "src")
    if in_program:
        attrs = {
            **members.ring_attrs(),
            "peer": peer,
            "out_shape": list(tensor.shape),
            "dtype": tensor.dtype,
            "use_calc_stream": sync_op,
            "dynamic_shape": False,
        }
        append("recv_v2", {}, attrs, dtype=tensor.dtype, out=tensor)
        return None
    ring = members.ring
    task = Task(_receiving(ring, tensor, peer))
    if sync_op:
        task.wait()
    return task


def _receiving(ring: Ring, target: Any, peer: int) -> Callable[[], None]:
    def finish() -> None:
        found = ring.receive(peer)
        if found.dtype != target.dtype:
            raise ArgumentError(
                f"rank {peer} of the group sent {found.dtype}{list(found.shape)}, but "
                f"{target.dtype} is expected"
            )
        write(target, found)

    return finish
