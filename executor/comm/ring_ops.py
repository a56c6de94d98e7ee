"""The ops on rings of ranks."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import numpy as np

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.base.errors import CommunicatorError, FluidError
from fluidlite.executor.comm.nccl.rings import NcclRing, unique_id
from fluidlite.executor.comm.ops import Action, SlotValues, action, session_for
from fluidlite.executor.comm.rings import ReductionRequest, Ring
from fluidlite.executor.comm.session import Session
from fluidlite.ir.operator import Operator
from fluidlite.values.tensor import SelectedRows, host

__all__ = ["PlannedAllReduce", "PlannedCollective", "ring_action", "ring_of"]

_ID_BYTES = 128  # of NCCL's unique ids; those of other transports are as long


def _with_op(error: FluidError, op: Operator) -> FluidError:
    """The error, with the op and the user's line where it does not have them yet."""
    if isinstance(error, CommunicatorError) and error.names_op:
        return error
    ring = f" on ring {op.attrs['ring_id']}" if "ring_id" in op.attrs else ""
    return type(error)(f"op {op.type!r}{ring}: {error}\n  {op.call_text()}\n  built at {op.where}")


def ring_action(*types: str) -> Callable[[Action], Action]:
    """Declare what ops of these types do; their errors name op, ring and the user's line."""

    def declare(function: Action) -> Action:
        def act(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
            try:
                return function(session, context, values)
            except FluidError as error:
                raise _with_op(error, context.op) from error

        action(*types)(act)
        return function

    return declare


def ring_of(session: Session, op: Operator) -> Ring:
    """The op's ring, of as many ranks as the op was made for."""
    ring = session.ring(op.attrs.get("ring_id", 0))
    if "nranks" in op.attrs and op.attrs["nranks"] != ring.size:
        raise CommunicatorError(
            f"the op was made for {op.attrs['nranks']} ranks, but the ring has {ring.size}"
        )
    return ring


def _is_buffer(op: Operator) -> bool:
    """True if an op reduces a buffer that gradients are views of: then it has to change it in place."""
    name = op.input("X")[0]
    return op.input("X") == op.output("Out") and any(
        other.type == "coalesce_tensor" and name in other.output("FusedOutput") for other in op.block.ops
    )


def _output(op: Operator, old: Any, new: Any) -> dict[str, list[Any]]:
    """The result of an op: a new array, or the old one with its values where that is a buffer."""
    if old is new or not _is_buffer(op):
        return {"Out": [new]}
    old[...] = new
    return {"Out": [old]}


# ---------------------------------------------------------------------- making rings
@ring_action("c_gen_nccl_id", "c_gen_xccl_id")
def make_id(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Make the name of a ring on its rank 0, and give it to the others."""
    attrs = context.op.attrs
    members = list(attrs["other_endpoints"])
    members.insert(attrs["rank"], attrs["endpoint"])
    return {"Out": [_agreed_name(session, context, members, attrs["rank"])]}


@ring_action("gen_nccl_id")
def make_ids(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Make the names of all communicators of an "nccl2" job. Fluid's op outputs the first; its runtime knows
    the others by the names of their variables.
    """
    attrs = context.op.attrs
    trainers = attrs["trainers"]
    me = attrs["trainer_id"]
    count = attrs["nccl_comm_num"]
    group = attrs["hierarchical_allreduce_inter_nranks"]
    Session.check_place(0, me, len(trainers))
    # every process agrees on the names in the same order, for a name is asked for by its members alone
    first, *rest = [_agreed_name(session, context, trainers, me) for _ in range(count)]
    found = {f"NCCLID_{number}": name for number, name in enumerate(rest, 1)}
    for number in range(count if attrs["use_hierarchical_allreduce"] else 0):
        start = me - me % group
        mine = trainers[start : start + group]
        found[f"Hierarchical_inter_NCCLID_{number}"] = _agreed_name(session, context, mine, me % group)
        if me % group == 0:
            leaders = trainers[::group]
            name = _agreed_name(session, context, leaders, me // group)
            found[f"Hierarchical_exter_NCCLID_{number}"] = name
    for variable, value in found.items():
        (context.scope.find_var(variable) or context.scope.var(variable)).set(value)
    return {"NCCLID": [first]}


def _agreed_name(session: Session, context: Any, members: list[str], rank: int) -> Any:
    """The name of a ring as the array that a variable holds."""

    def make() -> bytes:
        return secrets.token_bytes(_ID_BYTES) if context.xp is np else unique_id()

    return np.frombuffer(session.agree_on_id(members, rank, make), np.int8).copy()


@ring_action("c_comm_init_all")
def join_devices(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Join the ring of the devices of one process, or of all processes that have a device each."""
    ring_id = context.op.attrs["ring_id"]
    devices = context.op.attrs["devices"]
    session.join_devices(ring_id)
    size = session.ring(ring_id).size
    if devices and len(devices) != size:
        raise CommunicatorError(f"the op is made for {len(devices)} devices, but there are {size} ranks")
    _use_nccl(session, context, ring_id)
    return {}


@ring_action("c_comm_init")
def join(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Join a ring by its name."""
    attrs = context.op.attrs
    name = host(values["X"][0]).tobytes() if values.get("X") and values["X"][0] is not None else b""
    session.join(attrs["ring_id"], attrs["rank"], attrs["nranks"], name)
    _use_nccl(session, context, attrs["ring_id"], name)
    return {}


def _use_nccl(session: Session, context: Any, ring_id: int, name: bytes = b"") -> None:
    """Have NCCL do what it can of the ring, if the program runs on a device."""
    if context.xp is not np:
        session.replace_ring(NcclRing(session.ring(ring_id), name))


# ---------------------------------------------------------------------- reductions
_OF_NUMBER = ("sum", "prod", "max", "min")  # the `reduce_type` of `allreduce`
_OF_TYPE = {
    f"c_{what}_{reduce_op}": reduce_op for what in ("allreduce", "reduce") for reduce_op in _OF_NUMBER
}


def reduce_op_of(op: Operator) -> str:
    """The reduction that an op asks for: by its type, or for the op of before the rings by a number."""
    return _OF_NUMBER[op.attrs["reduce_type"]] if op.type == "allreduce" else _OF_TYPE[op.type]


@ring_action("c_allreduce_sum", "c_allreduce_max", "c_allreduce_min", "c_allreduce_prod", "allreduce")
def all_reduce(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Reduce over all ranks, for each of them."""
    op = context.op
    value = values["X"][0]
    ring = ring_of(session, op)
    if isinstance(value, SelectedRows):
        return {"Out": [_rows_of_all(ring, op, value)]}
    if _is_buffer(op):
        ring.start_all_reduce(value, value, reduce_op_of(op)).wait()
        return {"Out": [value]}
    return {"Out": [ring.all_reduce(value, reduce_op_of(op))]}


def _rows_of_all(ring: Ring, op: Operator, rows: SelectedRows) -> SelectedRows:
    """The sum of sparse gradients: the rows of all ranks, for a row may occur more than once."""
    if reduce_op_of(op) != "sum":
        raise CommunicatorError("selected rows cannot be reduced in this way: they can only be summed")
    # to merge rows of one number is left to those who apply them, which do it anyway
    ids = ring.all_gather(rows.ids)
    parts = ring.all_gather(rows.array)
    return SelectedRows(np.concatenate(ids), rows.height(), np.concatenate(parts))


@ring_action("c_reduce_sum", "c_reduce_max", "c_reduce_min", "c_reduce_prod")
def reduce(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Reduce for rank `root_id`; the others keep what they have."""
    op = context.op
    value = values["X"][0]
    root = context.op.attrs["root_id"]
    ring = ring_of(session, op)
    if isinstance(value, SelectedRows):
        ring.check_rank(root, "root_id")
        total = _rows_of_all(ring, op, value)
        return {"Out": [total if ring.rank == root else value]}
    return _output(op, value, ring.reduce(value, reduce_op_of(op), root))


@ring_action("c_reducescatter")
def reduce_scatter(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Give each rank its rows of the sum."""
    return {"Out": [ring_of(session, context.op).reduce_scatter(values["X"][0])]}


# ---------------------------------------------------------------------- moving
@ring_action("c_broadcast", "broadcast")
def broadcast(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Give all ranks the value of rank `root`."""
    op = context.op
    value = values["X"][0]
    root = context.op.attrs["root"]
    ring = ring_of(session, op)
    if isinstance(value, SelectedRows):
        ring.check_rank(root, "root")
        # ranks do not know how many rows the root has: they gather, to which the others give none
        mine = slice(None) if ring.rank == root else slice(0)
        ids = ring.all_gather(value.ids[mine])
        rows = ring.all_gather(value.array[mine])
        return {"Out": [SelectedRows(ids[root], value.height(), rows[root])]}
    return _output(op, value, ring.broadcast(value, root))


@ring_action("c_allgather")
def all_gather(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Concatenate all ranks' values in the order of the ranks."""
    return {"Out": [context.xp.concatenate(ring_of(session, context.op).all_gather(values["X"][0]))]}


@ring_action("c_scatter")
def scatter(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Give each rank its rows of rank `root`'s value."""
    return {"Out": [ring_of(session, context.op).scatter(values["X"][0], context.op.attrs["root"])]}


@ring_action("barrier")
def barrier(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Wait until all ranks have come here."""
    ring_of(session, context.op).barrier()
    return {"Out": values["X"]}


@ring_action("send_v2")
def send_to_rank(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Send a value to another rank."""
    ring_of(session, context.op).send(values["X"][0], context.op.attrs["peer"])
    return {}


@ring_action("recv_v2")
def receive_from_rank(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Receive a value of another rank; CommunicatorError where it is not of the declared shape and type."""
    attrs = context.op.attrs
    found = ring_of(session, context.op).receive(attrs["peer"])
    shape = tuple(attrs["out_shape"])
    dtype = to_numpy(VarType(attrs["dtype"]))
    is_declared = bool(shape) and not attrs["dynamic_shape"]
    if is_declared and not (found.dtype == dtype and _fits(found.shape, shape)):
        raise CommunicatorError(
            f"rank {attrs['peer']} sent {found.dtype}{list(found.shape)}, but {dtype}{list(shape)} "
            "is expected"
        )
    return {"Out": [context.xp.asarray(found)]}


def _fits(shape: tuple[int, ...], declared: tuple[int, ...]) -> bool:
    """True if an array has the declared shape, in which -1 stands for any size."""
    return len(shape) == len(declared) and all(
        want in (-1, size) for want, size in zip(declared, shape, strict=True)
    )


# ---------------------------------------------------------------------- in plans
class _PlannedOp:
    """An op on a ring that a plan calls with the memory of its operands."""

    def __init__(self, op: Operator) -> None:
        self.op = op

    def on_ring(self, call: Callable[[Ring], Any]) -> Any:
        """The result of a call on the op's ring; errors name the op."""
        session = session_for(self.op)
        with session.running(self.op):
            try:
                return call(ring_of(session, self.op))
            except FluidError as error:
                raise _with_op(error, self.op) from error


class PlannedCollective(_PlannedOp):
    """A broadcast, or a reduction for one rank, from one array into another or into itself."""

    def __init__(self, xp: Any, op: Operator) -> None:
        super().__init__(op)
        self.reduce_op = None if op.type == "c_broadcast" else reduce_op_of(op)

    def __call__(self, source: Any, target: Any) -> None:
        """Do it."""
        found = self.on_ring(lambda ring: self._result(ring, source))
        if found is not target:
            target[...] = found

    def _result(self, ring: Ring, source: Any) -> Any:
        if self.reduce_op is None:
            return ring.broadcast(source, self.op.attrs["root"])
        return ring.reduce(source, self.reduce_op, self.op.attrs["root_id"])


class PlannedAllReduce(_PlannedOp):
    """An all-reduce: a call starts it, `wait` ends it, and the plan's steps between them run meanwhile."""

    def __init__(self, xp: Any, op: Operator) -> None:
        super().__init__(op)
        self.reduce_op = reduce_op_of(op)
        self.request: ReductionRequest | None = None

    def __call__(self, source: Any, target: Any) -> None:
        """Begin to reduce one array into another, or into itself."""
        self.request = self.on_ring(lambda ring: ring.start_all_reduce(source, target, self.reduce_op))

    def poll(self) -> None:
        """Let the transport make progress."""
        if self.request is not None:
            self.request.poll()

    def wait(self) -> None:
        """Return once the result is there."""
        request = self.request
        self.request = None
        if request is not None:
            self.on_ring(lambda ring: request.wait())
