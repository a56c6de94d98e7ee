"""What each op on a ring of ranks does."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.base.errors import CommunicatorError, FluidError
from fluidlite.executor.comm.ops import ACTIONS, Values, session_for
from fluidlite.executor.comm.rings import BaseRing, Request
from fluidlite.executor.comm.session import Session
from fluidlite.ir.operator import Operator
from fluidlite.values.tensor import SelectedRows, host

__all__ = ["Exchange", "Reduction"]

RingAction: TypeAlias = "Callable[[Session, Any, Values], dict[str, list[Any]]]"
_ID_BYTES = 128  # of NCCL's unique ids; those of other transports are as long


def explained(error: FluidError, op: Operator) -> FluidError:
    """The error, with the op and the user's line where it does not have them yet."""
    if "built at" in str(error):
        return error
    ring = f" on ring {op.attrs['ring_id']}" if "ring_id" in op.attrs else ""
    return type(error)(f"op {op.type!r}{ring}: {error}\n  {op.call_text()}\n  built at {op.where}")


def ring_action(*types: str) -> Callable[[RingAction], RingAction]:
    """Declare what ops of these types do; their errors name op, ring and the user's line."""

    def declare(function: RingAction) -> RingAction:
        def act(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
            try:
                return function(session, context, values)
            except FluidError as error:
                raise explained(error, context.op) from error

        ACTIONS.update(dict.fromkeys(types, act))
        return function

    return declare


def _ring(session: Session, op: Operator) -> BaseRing:
    """The op's ring, of as many ranks as the op was made for."""
    ring = session.ring(op.attrs.get("ring_id", 0))
    if "nranks" in op.attrs and op.attrs["nranks"] != ring.size:
        raise CommunicatorError(
            f"the op was made for {op.attrs['nranks']} ranks, but the ring has {ring.size}"
        )
    return ring


def _is_buffer(op: Operator) -> bool:
    """Whether an op changes a buffer that gradients are views of: then it has to change it in place."""
    name = op.input("X")[0]
    return op.input("X") == op.output("Out") and any(
        other.type == "coalesce_tensor" and name in other.output("FusedOutput") for other in op.block.ops
    )


def _given(op: Operator, old: Any, new: Any) -> dict[str, list[Any]]:
    """The result of an op."""
    if old is new or not _is_buffer(op):
        return {"Out": [new]}
    old[...] = new
    return {"Out": [old]}


# ---------------------------------------------------------------------- making rings
@ring_action("c_gen_nccl_id")
def make_id(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """The name of a ring, which its rank 0 makes and gives to the others."""
    attrs = context.op.attrs
    members = list(attrs["other_endpoints"])
    members.insert(attrs["rank"], attrs["endpoint"])
    return {"Out": [_name(session, context, members, attrs["rank"])]}


@ring_action("gen_nccl_id")
def make_ids(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """The names of all communicators of an "nccl2" job; those behind the first go into variables that the
    runtime knows by name.
    """
    attrs = context.op.attrs
    everybody, me, group = (
        attrs["trainers"],
        attrs["trainer_id"],
        attrs["hierarchical_allreduce_inter_nranks"],
    )
    Session.check_place(0, me, len(everybody))
    first, *rest = [_name(session, context, everybody, me) for _ in range(attrs["nccl_comm_num"])]
    found = {f"NCCLID_{number}": name for number, name in enumerate(rest, 1)}
    for number in range(attrs["nccl_comm_num"] if attrs["use_hierarchical_allreduce"] else 0):
        start = me - me % group
        found[f"Hierarchical_inter_NCCLID_{number}"] = _name(
            session, context, everybody[start : start + group], me % group
        )
        if me % group == 0:
            found[f"Hierarchical_exter_NCCLID_{number}"] = _name(
                session, context, everybody[::group], me // group
            )
    for name, value in found.items():
        (context.scope.find_var(name) or context.scope.var(name)).set(value)
    return {"NCCLID": [first]}


def _name(session: Session, context: Any, members: list[str], rank: int) -> Any:
    """A name as the array that a variable holds."""

    def make() -> bytes:
        if context.xp is not np:
            from fluidlite.executor.comm.nccl.rings import unique_id

            return unique_id()
        return secrets.token_bytes(_ID_BYTES)

    return np.frombuffer(session.agree_on_id(members, rank, make), np.int8).copy()


@ring_action("c_comm_init_all")
def join_devices(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Join the ring of the devices of one process, or of all processes that have a device each."""
    ring_id, devices = context.op.attrs["ring_id"], context.op.attrs["devices"]
    session.join_devices(ring_id)
    if devices and len(devices) != session.rings[ring_id].size:
        raise CommunicatorError(
            f"the op is made for {len(devices)} devices, but there are {session.rings[ring_id].size} ranks"
        )
    _on_device(session, context, ring_id)
    return {}


@ring_action("c_comm_init")
def join(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Join a ring by its name."""
    attrs = context.op.attrs
    name = host(values["X"][0]).tobytes() if values.get("X") and values["X"][0] is not None else b""
    session.join(attrs["ring_id"], attrs["rank"], attrs["nranks"], name)
    _on_device(session, context, attrs["ring_id"], name)
    return {}


def _on_device(session: Session, context: Any, ring_id: int, name: bytes = b"") -> None:
    """Let NCCL do what the ring of a device does."""
    if context.xp is not np:
        from fluidlite.executor.comm.nccl.rings import NcclRing

        session.rings[ring_id] = NcclRing(session.rings[ring_id], name)


# ---------------------------------------------------------------------- reductions
def how_of(op: Operator) -> str:
    """The reduction that an op asks for; the op of before the rings has it as a number."""
    return (
        ("sum", "prod", "max", "min")[op.attrs["reduce_type"]]
        if op.type == "allreduce"
        else op.type.rpartition("_")[2]
    )


@ring_action("c_allreduce_sum", "c_allreduce_max", "c_allreduce_min", "c_allreduce_prod", "allreduce")
def all_reduce(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """The reduction over all ranks, for each of them."""
    op, value = context.op, values["X"][0]
    ring = _ring(session, op)
    if isinstance(value, SelectedRows):
        return {"Out": [_all_rows(ring, op, value)]}
    if _is_buffer(op):
        ring.start_all_reduce(value, value, how_of(op)).wait()
        return {"Out": [value]}
    return {"Out": [ring.all_reduce(value, how_of(op))]}


def _all_rows(ring: BaseRing, op: Operator, rows: SelectedRows) -> SelectedRows:
    """The sum of sparse gradients: the rows of all ranks, for a row may occur more than once."""
    if how_of(op) != "sum":
        raise CommunicatorError("rows of a table cannot be reduced in this way: they can only be added")
    ids, parts = ring.all_gather(rows.ids), ring.all_gather(rows.array)
    return SelectedRows(np.concatenate(ids), rows.height(), np.concatenate(parts))


@ring_action("c_reduce_sum", "c_reduce_max", "c_reduce_min", "c_reduce_prod")
def reduce(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """The reduction for rank `root_id`; the others keep what they have."""
    op, value, root = context.op, values["X"][0], context.op.attrs["root_id"]
    ring = _ring(session, op)
    if isinstance(value, SelectedRows):
        ring.check_rank(root, "root_id")
        total = _all_rows(ring, op, value)
        return {"Out": [total if ring.rank == root else value]}
    return _given(op, value, ring.reduce(value, how_of(op), root))


@ring_action("c_reducescatter")
def reduce_scatter(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Each rank its part of the sum."""
    return {"Out": [_ring(session, context.op).reduce_scatter(values["X"][0])]}


# ---------------------------------------------------------------------- moving
@ring_action("c_broadcast", "broadcast")
def broadcast(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """The value of rank `root`."""
    op, value, root = context.op, values["X"][0], context.op.attrs["root"]
    ring = _ring(session, op)
    if isinstance(value, SelectedRows):
        ring.check_rank(root, "root")
        mine = slice(None) if ring.rank == root else slice(0)
        ids, rows = ring.all_gather(value.ids[mine]), ring.all_gather(value.array[mine])
        return {"Out": [SelectedRows(ids[root], value.height(), rows[root])]}
    return _given(op, value, ring.broadcast(value, root))


@ring_action("c_allgather")
def all_gather(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """All ranks' values, one behind the other."""
    return {"Out": [context.xp.concatenate(_ring(session, context.op).all_gather(values["X"][0]))]}


@ring_action("c_scatter")
def scatter(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Each rank its part of what rank `root` has."""
    return {"Out": [_ring(session, context.op).scatter(values["X"][0], context.op.attrs["root"])]}


@ring_action("barrier")
def barrier(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """All ranks have come here when this returns."""
    _ring(session, context.op).barrier()
    return {"Out": values["X"]}


@ring_action("send_v2")
def send_to_rank(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Give a value to another rank."""
    _ring(session, context.op).send(values["X"][0], context.op.attrs["peer"])
    return {}


@ring_action("recv_v2")
def receive_from_rank(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Take a value of another rank; CommunicatorError where it is not of the shape and type that the op
    says.
    """
    attrs = context.op.attrs
    found = _ring(session, context.op).receive(attrs["peer"])
    shape, dtype = tuple(attrs["out_shape"]), to_numpy(VarType(attrs["dtype"]))
    if (
        not attrs["dynamic_shape"]
        and shape
        and (
            found.dtype != dtype
            or len(found.shape) != len(shape)
            or any(want not in (-1, have) for want, have in zip(shape, found.shape, strict=True))
        )
    ):
        raise CommunicatorError(
            f"rank {attrs['peer']} sent {found.dtype}{list(found.shape)}, where {dtype}{list(shape)} is "
            f"expected"
        )
    return {"Out": [context.xp.asarray(found)]}


# ---------------------------------------------------------------------- in plans
class Exchange:
    """An op in a plan that leaves its result in the memory that it is given."""

    def __init__(self, xp: Any, op: Operator) -> None:
        self.op = op
        self.how = how_of(op)

    def talk(self, what: Callable[[BaseRing], Any]) -> Any:
        """What comes of doing something with the op's ring; errors name the op."""
        session = session_for(self.op)
        session.doing = self.op
        try:
            return what(_ring(session, self.op))
        except FluidError as error:
            raise explained(error, self.op) from error
        finally:
            session.doing = None

    def __call__(self, source: Any, target: Any) -> None:
        """Do it, from one array into another, or into itself."""
        attrs = self.op.attrs
        found = self.talk(
            lambda ring: (
                ring.broadcast(source, attrs["root"])
                if self.how == "broadcast"
                else ring.reduce(source, self.how, attrs["root_id"])
            )
        )
        if found is not target:
            target[...] = found


class Reduction(Exchange):
    """An all-reduce in a plan: a call starts it, `wait` ends it, and what stands between them goes on
    meanwhile.
    """

    def __init__(self, xp: Any, op: Operator) -> None:
        super().__init__(xp, op)
        self.request: Request | None = None

    def __call__(self, source: Any, target: Any) -> None:
        """Begin to reduce one array into another, or into itself."""
        self.request = self.talk(lambda ring: ring.start_all_reduce(source, target, self.how))

    def poll(self) -> None:
        """Let it get on."""
        if self.request is not None:
            self.request.poll()

    def wait(self) -> None:
        """Return once the result is there."""
        request, self.request = self.request, None
        if request is not None:
            self.talk(lambda ring: request.wait())
