"""The collective functions under the names and signatures of `paddle.distributed`; `stream` does them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from fluidlite.base.errors import ArgumentError
from fluidlite.paddle.build import append
from fluidlite.paddle.distributed.communication import stream
from fluidlite.paddle.distributed.communication.group import Group
from fluidlite.paddle.distributed.communication.tensors import Members, ReduceOp, Task, check_tensor, write
from fluidlite.paddle.tensor.creation import full

__all__ = [
    "P2POp",
    "ReduceOp",
    "all_gather",
    "all_reduce",
    "alltoall",
    "alltoall_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "gather",
    "irecv",
    "isend",
    "recv",
    "reduce",
    "reduce_scatter",
    "scatter",
    "send",
    "wait",
]


def all_reduce(
    tensor: Any, op: int = ReduceOp.SUM, group: Group | None = None, sync_op: bool = True
) -> Task | None:
    """The reduction of all ranks' tensors, in place."""
    return stream.all_reduce(tensor, op, group, sync_op)


def reduce(
    tensor: Any, dst: int, op: int = ReduceOp.SUM, group: Group | None = None, sync_op: bool = True
) -> Task | None:
    """The reduction of all ranks' tensors for rank `dst`, in place; the others keep what they have."""
    return stream.reduce(tensor, dst, op, group, sync_op)


def reduce_scatter(
    tensor: Any, tensor_list: Any, op: int = ReduceOp.SUM, group: Group | None = None, sync_op: bool = True
) -> Task | None:
    """This rank's part of the reduction of all ranks' lists."""
    return stream.reduce_scatter(tensor, tensor_list, op, group, sync_op)


def all_gather(
    tensor_list: list[Any], tensor: Any, group: Group | None = None, sync_op: bool = True
) -> Task | None:
    """Every rank's tensor, in a list."""
    return stream.all_gather(tensor_list, tensor, group, sync_op)


def gather(
    tensor: Any,
    gather_list: list[Any] | None = None,
    dst: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
) -> Task | None:
    """Every rank's tensor, in the list of rank `dst`."""
    return stream.gather(tensor, gather_list, dst, group, sync_op)


def broadcast(tensor: Any, src: int, group: Group | None = None, sync_op: bool = True) -> Task | None:
    """The tensor of rank `src` for all ranks, in place."""
    return stream.broadcast(tensor, src, group, sync_op)


def scatter(
    tensor: Any,
    tensor_list: list[Any] | None = None,
    src: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
) -> Task | None:
    """This rank's part of the list of rank `src`, in `tensor`."""
    return stream.scatter(tensor, tensor_list, src, group, sync_op)


def alltoall(
    in_tensor_list: Any, out_tensor_list: Any, group: Group | None = None, sync_op: bool = True
) -> Task | None:
    """`in_tensor_list[r]` goes to rank r; what the ranks have for this one comes into `out_tensor_list`."""
    return stream.alltoall(out_tensor_list, in_tensor_list, group, sync_op)


def alltoall_single(
    in_tensor: Any,
    out_tensor: Any,
    in_split_sizes: Sequence[int] | None = None,
    out_split_sizes: Sequence[int] | None = None,
    group: Group | None = None,
    sync_op: bool = True,
) -> Task | None:
    """Rows of this rank to all, and of all to this rank, by the numbers of rows or in equal shares."""
    return stream.alltoall_single(out_tensor, in_tensor, out_split_sizes, in_split_sizes, group, sync_op)


# ---------------------------------------------------------------------- from rank to rank
def send(tensor: Any, dst: int = 0, group: Group | None = None, sync_op: bool = True) -> Task | None:
    """Send a tensor to rank `dst`."""
    return stream.send(tensor, dst, group, sync_op)


def recv(tensor: Any, src: int = 0, group: Group | None = None, sync_op: bool = True) -> Task | None:
    """The next tensor of rank `src`, in place."""
    return stream.recv(tensor, src, group, sync_op)


def isend(tensor: Any, dst: int, group: Group | None = None) -> Task | None:
    """Send a tensor to rank `dst`, with a task to wait for."""
    return send(tensor, dst, group, sync_op=False)


def irecv(tensor: Any, src: int | None = None, group: Group | None = None) -> Task | None:
    """The next tensor of rank `src`, in place once the task has been waited for."""
    return recv(tensor, 0 if src is None else src, group, sync_op=False)


class P2POp:
    """A transfer for `batch_isend_irecv`: `isend` or `irecv`, the tensor, and the other rank of the job."""

    def __init__(
        self, op: Callable[..., Task | None], tensor: Any, peer: int, group: Group | None = None
    ) -> None:
        # users have the guarded ones
        op = inspect.unwrap(op)
        if op not in (isend, irecv):
            raise RuntimeError(
                "Invalid ``op`` function. Expected ``op`` to be of type ``paddle.distributed.isend`` or "
                "``paddle.distributed.irecv``."
            )
        self.op = op
        self.tensor = tensor
        self.peer = peer
        self.group = group


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Task]:
    """Do transfers together: their order matters only between those of one peer in one direction. Variables
    get their ops, arrays a task each.
    """
    if not p2p_op_list or not all(isinstance(each, P2POp) for each in p2p_op_list):
        raise ArgumentError("batch_isend_irecv needs a list of P2POp, which is not empty")
    groups = {id(each.group) for each in p2p_op_list}
    if len(groups) > 1:
        raise RuntimeError("All groups need to be the same in a batch of transfers.")
    kinds = {check_tensor(each.tensor, "tensor", "batch_isend_irecv") for each in p2p_op_list}
    if True in kinds:
        # a send waits for nobody, so that all go first
        for each in sorted(p2p_op_list, key=lambda each: each.op is irecv):
            each.op(each.tensor, each.peer, each.group)
        return []
    members = Members(p2p_op_list[0].group)
    if members.rank < 0:
        return []
    sent = [(members.number(each.peer, "peer"), each.tensor) for each in p2p_op_list if each.op is isend]
    received = [each for each in p2p_op_list if each.op is irecv]
    found = members.ring.exchange(sent, [members.number(each.peer, "peer") for each in received])
    for each, value in zip(received, found, strict=True):
        write(each.tensor, value)
    return [Task() for _ in p2p_op_list]


# ---------------------------------------------------------------------- waiting
def barrier(group: Group | None = None) -> None:
    """In the program: go on when all ranks have come here. `gloo_barrier` waits at once."""
    members = Members(group)
    if members.rank < 0:
        return
    token = full([1], 1, "int32")
    append("barrier", {"X": [token]}, members.ring_attrs(), dtype="int32", out=token)


def wait(tensor: Any, group: Group | None = None, use_calc_stream: bool = True) -> None:
    """In the program: go on when the tensor is there. Arrays are there when a call returns."""
    members = Members(group)
    if members.rank < 0 or not check_tensor(tensor, "tensor", "wait"):
        return
    if use_calc_stream:
        append("c_sync_calc_stream", {"X": [tensor]}, {}, dtype=tensor.dtype, out=tensor)
        return
    append("c_sync_comm_stream", {"X": [tensor]}, members.ring_attrs(), dtype=tensor.dtype, out=tensor)
