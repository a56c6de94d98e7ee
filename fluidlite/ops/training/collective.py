"""Communication among the ranks of a job: rings are made, then arrays are reduced, broadcast, gathered, sent
over them.

A ring is a communicator, known by its `ring_id`. What talks to other ranks has no kernel: the communicator of
the run carries it out. An op whose output is its input reduces in place, so that whatever is a view of the
array (see `coalesce_tensor`) changes with it.
"""

from __future__ import annotations

import math
from typing import Any

from fluidlite.base.comm_kind import CommKind
from fluidlite.base.dtypes import Array, VarType, to_numpy
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import INTS, STRINGS, AttrType, GradContext, Op, Spec, later, required, same_as

_INT = required(AttrType.INT)
_STRING = required(AttrType.STRING)
_STRINGS = required(AttrType.STRINGS)
_RING: dict[str, Any] = {"ring_id": 0, "use_calc_stream": False}
# marks ops of tensor parallelism in programs of 2.x, where it changes nothing that is computed
_MODEL_PARALLEL: dict[str, Any] = {**_RING, "use_model_parallel": later(False)}

# ---------------------------------------------------------------------- making communicators
c_gen_nccl_id = Op(
    "c_gen_nccl_id",
    "-> Out",
    communicates=CommKind.MAKE_RING,
    attrs={"rank": _INT, "endpoint": _STRING, "other_endpoints": STRINGS(), "ring_id": later(0)},
)
c_gen_xccl_id = Op(
    "c_gen_xccl_id",
    "-> Out",
    communicates=CommKind.MAKE_RING,
    attrs={"rank": _INT, "endpoint": _STRING, "other_endpoints": STRINGS(), "ring_id": 0},
)
gen_nccl_id = Op(
    "gen_nccl_id",
    "-> NCCLID",
    communicates=CommKind.MAKE_RING,
    attrs={
        "trainers": _STRINGS,
        "trainer_id": _INT,
        "nccl_comm_num": 1,
        "use_hierarchical_allreduce": False,
        "hierarchical_allreduce_inter_nranks": 0,
    },
)
c_comm_init = Op(
    "c_comm_init",
    "X ->",
    communicates=CommKind.MAKE_RING,
    attrs={"nranks": _INT, "rank": _INT, "ring_id": 0, "device_id": later(-1), "endpoints": later("")},
)
c_comm_init_all = Op(
    "c_comm_init_all", "->", communicates=CommKind.MAKE_RING, attrs={"devices": INTS(), "ring_id": 0}
)


# ---------------------------------------------------------------------- one value over all ranks
def _same_shape(op_type: str, kind: CommKind, *, amp_fp16: str | None = None, **attrs: Any) -> Op:
    """An op whose result looks like its input on every rank."""
    op = Op(op_type, "X -> Out", attrs=attrs, communicates=kind, amp_fp16=amp_fp16)
    op.shape(same_as("X"))
    return op


c_allreduce_sum = _same_shape("c_allreduce_sum", CommKind.ALL_REDUCE, **_MODEL_PARALLEL, amp_fp16="gray")
for _type in ("c_allreduce_max", "c_allreduce_min", "c_allreduce_prod"):
    _same_shape(_type, CommKind.ALL_REDUCE, **_MODEL_PARALLEL)
for _type in ("c_reduce_sum", "c_reduce_max", "c_reduce_min", "c_reduce_prod"):
    _same_shape(_type, CommKind.REDUCE, root_id=0, **_RING)
c_broadcast = _same_shape("c_broadcast", CommKind.BROADCAST, root=0, **_RING)
allreduce = _same_shape("allreduce", CommKind.ALL_REDUCE, reduce_type=0, sync_mode=False)
broadcast = _same_shape("broadcast", CommKind.BROADCAST, root=0, sync_mode=False)
barrier = _same_shape("barrier", CommKind.BARRIER, ring_id=0)


# every rank's result depends on every rank's X, so the gradients are summed as well
@c_allreduce_sum.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit("c_allreduce_sum", {"X": context.out_grad("Out")}, {"Out": context.in_grad("X")})


# ---------------------------------------------------------------------- each rank its part
alltoall = _same_shape("alltoall", CommKind.ALL_TO_ALL, **_RING)


# the gradient of what went to a rank comes back from there; 2.6.2's op has none
@alltoall.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit("alltoall", {"X": context.out_grad("Out")}, {"Out": context.in_grad("X")})


c_allgather = Op("c_allgather", "X -> Out", attrs={"nranks": _INT, **_RING}, communicates=CommKind.ALL_GATHER)
c_reducescatter = Op(
    "c_reducescatter", "X -> Out", attrs={"nranks": 1, **_RING}, communicates=CommKind.REDUCE_SCATTER
)
c_scatter = Op(
    "c_scatter", "X -> Out", attrs={"nranks": _INT, "root": 0, **_RING}, communicates=CommKind.SCATTER
)


@c_allgather.shape
def _(X: Spec, nranks: int) -> Spec:
    rows, *rest = X.shape
    return X.with_shape((rows * nranks if rows >= 0 else -1, *rest))


@c_allgather.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit("c_reducescatter", {"X": context.out_grad("Out")}, {"Out": context.in_grad("X")})


def _part(op_type: str, X: Spec, nranks: int) -> Spec:
    rows, *rest = X.shape
    if rows >= 0 and rows % nranks:
        raise ShapeError(
            f"op {op_type!r}: X has {rows} rows, which cannot be divided evenly among {nranks} ranks"
        )
    return X.with_shape((rows // nranks if rows >= 0 else -1, *rest))


@c_reducescatter.shape
def _(X: Spec, nranks: int) -> Spec:
    return _part("c_reducescatter", X, nranks)


@c_scatter.shape
def _(X: Spec, nranks: int) -> Spec:
    return _part("c_scatter", X, nranks)


# ---------------------------------------------------------------------- from one rank to another
send_v2 = Op(
    "send_v2", "X ->", attrs={"peer": 0, "dynamic_shape": False, **_RING}, communicates=CommKind.SEND
)
recv_v2 = Op(
    "recv_v2",
    "-> Out",
    communicates=CommKind.RECEIVE,
    attrs={"peer": 0, "dtype": int(VarType.FP32), "out_shape": INTS(), "dynamic_shape": False, **_RING},
)


@recv_v2.shape
def _(dtype: int, out_shape: list[int]) -> Spec:
    return Spec(tuple(out_shape), VarType(dtype))


# ---------- a part of the elements, which the ranks of a tensor-parallel group share
_PIECE = {"ring_id": 0, "peer": 0, "use_calc_stream": False, "num": 1, "id": 0}
partial_send = Op("partial_send", "X ->", attrs=_PIECE, communicates=CommKind.SEND)
partial_recv = Op(
    "partial_recv",
    "-> Out",
    attrs={**_PIECE, "dtype": int(VarType.FP32), "out_shape": INTS()},
    communicates=CommKind.RECEIVE,
)
partial_allgather = _same_shape("partial_allgather", CommKind.PART_GATHER, **_RING, nranks=_INT, rank=_INT)


@partial_recv.shape
def _(dtype: int, out_shape: list[int]) -> Spec:
    return Spec(tuple(out_shape), VarType(dtype))


# ---------- rows to the experts that they are for, and back
global_scatter = Op(
    "global_scatter", "X local_count global_count -> Out", attrs=_RING, communicates=CommKind.TO_EXPERTS
)
global_gather = Op(
    "global_gather", "X local_count global_count -> Out", attrs=_RING, communicates=CommKind.TO_EXPERTS
)


@global_scatter.shape
def _(X: Spec) -> Spec:
    return X.with_shape((-1, *X.shape[1:]))


@global_gather.shape
def _(X: Spec) -> Spec:
    return X.with_shape((-1, *X.shape[1:]))


def _back(other: str) -> Any:
    """The gradient rule of an exchange among experts: the other exchange, with the same counts."""

    def rule(context: GradContext) -> None:
        counts = {name: context.input(name) for name in ("local_count", "global_count")}
        context.emit(other, {"X": context.out_grad("Out"), **counts}, {"Out": context.in_grad("X")})

    return rule


global_scatter.grad_rule("X")(_back("global_gather"))
global_gather.grad_rule("X")(_back("global_scatter"))


# ---------------------------------------------------------------------- as 2.x's newer programs name them
reduce_scatter = Op(
    "reduce_scatter", "x -> out", attrs={"ring_id": 0, "nranks": 1}, communicates=CommKind.OTHER
)
all_gather = Op("all_gather", "x -> out", attrs={"ring_id": 0, "nranks": 0}, communicates=CommKind.OTHER)
all_reduce = Op("all_reduce", "x -> out", attrs={"ring_id": 0, "reduce_type": 0}, communicates=CommKind.OTHER)
all_reduce.shape(same_as("x"))
all_to_all = Op("all_to_all", "x -> out", attrs={"ring_id": 0}, communicates=CommKind.OTHER)
all_to_all.shape(same_as("x"))


@reduce_scatter.shape
def _(x: Spec, nranks: int) -> Spec:
    return _part("reduce_scatter", x, nranks)


@all_gather.shape
def _(x: Spec, nranks: int) -> Spec:
    return x.with_shape((x.shape[0] * nranks if x.shape[0] >= 0 else -1, *x.shape[1:]))


# ---------- waiting for a stream, here in the order of the program
c_sync_calc_stream = Op("c_sync_calc_stream", "X -> Out", effect=True, moves=True, waits=True)
c_sync_comm_stream = Op(
    "c_sync_comm_stream",
    "X* -> Out*",
    attrs={"ring_id": 0},
    effect=True,
    idle=("ring_id",),
    moves=True,
    waits=True,
)


@c_sync_calc_stream.shape
def _(X: Spec) -> Spec:
    return X


@c_sync_calc_stream.kernel
def _(X: Any) -> Any:
    return X


@c_sync_comm_stream.shape
def _(X: list[Spec]) -> list[Spec]:
    return X


@c_sync_comm_stream.kernel
def _(X: list[Any]) -> list[Any]:
    return X


for _type in ("c_wait_comm", "c_wait_compute"):
    _waiting = Op(_type, "X* -> Out*", attrs={"ring_id": 0}, effect=True, idle=("ring_id",), waits=True)
    _waiting.shape(lambda X: X)
    _waiting.kernel(lambda X: X)


# 2.x: X, to be used only once the ops that write `Dep` have run
depend = Op("depend", "X Dep* -> Out", effect=True)


@depend.shape
def _(X: Spec) -> Spec:
    return X


@depend.kernel
def _(X: Any) -> Any:
    return X


# ---------------------------------------------------------------------- several tensors in one buffer
coalesce_tensor = Op(
    "coalesce_tensor",
    "Input* -> Output* FusedOutput",
    lod=None,
    attrs={"dtype": _INT, "copy_data": False, "set_constant": False, "constant": 0.0, "check_name": False},
    idle=(
        "align_size",
        "check_name",
        "concated_ranks",
        "concated_shapes",
        "persist_output",
        "use_align",
        "user_defined_size_of_dtype",
    ),
    moves=True,
    version=2,
)


@coalesce_tensor.shape
def _(Input: list[Spec], dtype: int) -> dict[str, Any]:
    for number, spec in enumerate(Input):
        if spec.dtype != VarType(dtype):
            raise ShapeError(
                f"op 'coalesce_tensor': Input {number} is {spec.dtype.name}, but the buffer holds "
                f"{VarType(dtype).name}"
            )
    static = all(spec.static for spec in Input)
    return {
        "Output": list(Input),
        "FusedOutput": Spec(
            (sum(math.prod(spec.shape) for spec in Input) if static else -1,), VarType(dtype)
        ),
    }


@coalesce_tensor.kernel
def _(
    xp: Any, Input: list[Array], dtype: int, copy_data: bool, set_constant: bool, constant: float
) -> dict[str, Any]:
    """Outputs are consecutive views of the buffer: what changes the buffer in place changes them."""
    total = sum(part.size for part in Input)
    if copy_data and Input:
        buffer = xp.concatenate([part.reshape(-1) for part in Input])
    else:
        buffer = xp.full(total, constant if set_constant else 0, to_numpy(VarType(dtype)))
    views = []
    start = 0
    for part in Input:
        views.append(buffer[start : start + part.size].reshape(part.shape))
        start += part.size
    return {"Output": views, "FusedOutput": buffer}
