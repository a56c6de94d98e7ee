"""Parameter-server ops: messages between trainers and servers, and gradients and ids cut into pieces."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.comm_kind import CommKind
from fluidlite.base.dtypes import Array, VarType, to_numpy
from fluidlite.base.errors import EnforceNotMet, ShapeError
from fluidlite.base.registry import (
    INTS,
    LONG,
    LONGS,
    STRINGS,
    Attr,
    AttrType,
    GradContext,
    Op,
    Spec,
    required,
)
from fluidlite.ops.neural.embedding import NO_PADDING, look_up
from fluidlite.ops.tensors.creation import as_declared
from fluidlite.values.tensor import SelectedRows, host, positions

_SERVER = STRINGS(["127.0.0.1:6164"])
_STRING = required(AttrType.STRING)

# ---------------------------------------------------------------------- messages
send = Op(
    "send",
    "X*? -> Out*",
    communicates=CommKind.TO_SERVER,
    lod=None,
    attrs={
        "trainer_id": 0,
        "epmap": _SERVER,
        "sections": LONGS(),
        "send_varnames": STRINGS(),
        "num": 0,
        "merge_add": False,
        "use_send_handler": True,
    },
)
recv = Op(
    "recv",
    "X*? -> Out*",
    communicates=CommKind.FROM_SERVER,
    lod=None,
    attrs={
        "trainer_id": 0,
        "epmap": STRINGS(),
        "varnames": STRINGS(),
        "recv_varnames": STRINGS(),
        "with_barrier": True,
        "do_not_run": 0,
    },
)
send_barrier = Op(
    "send_barrier",
    "X*? -> Out*?",
    communicates=CommKind.SERVER_BARRIER,
    lod=None,
    attrs={"trainer_id": 0, "endpoints": _SERVER, "half_async": False},
)
fetch_barrier = Op(
    "fetch_barrier",
    "X*? -> Out*?",
    communicates=CommKind.SERVER_BARRIER,
    lod=None,
    attrs={"trainer_id": 0, "endpoints": _SERVER},
)
prefetch = Op(
    "prefetch",
    "X* -> Out*",
    communicates=CommKind.LOOK_UP,
    lod=None,
    attrs={"trainer_id": 0, "epmap": _SERVER},
)
checkpoint_notify = Op(
    "checkpoint_notify",
    "->",
    communicates=CommKind.NOTE,
    lod=None,
    attrs={"epmap": _SERVER, "dir": _STRING, "lookup_table": _STRING, "trainer_id": 0},
)
recv_save = Op(
    "recv_save",
    "->",
    communicates=CommKind.OTHER,
    lod=None,
    attrs={
        "trainer_id": 0,
        "endpoints": STRINGS(),
        "remote_varnames": STRINGS(),
        "slice_varnames": STRINGS(),
        "slice_shapes": STRINGS(),
        "shape": LONGS(),
        "dtype": int(VarType.FP32),
        "file_path": _STRING,
        "overwrite": True,
    },
)
listen_and_serv = Op(
    "listen_and_serv",
    "X*? ->",
    communicates=CommKind.SERVE,
    outside=("X",),
    lod=None,
    attrs={
        "endpoint": "127.0.0.1:6164",
        "Fanin": 1,
        "optimize_blocks": Attr(AttrType.BLOCKS, []),
        "grad_to_block_id": STRINGS(),
        "prefetch_var_name_to_block_id": STRINGS(),
        "sparse_grad_to_param": STRINGS(),
        "distributed_mode": 0,
        "dc_asgd": False,
        "pserver_id": -1,
        "lr_decay_block_id": -1,
        "checkpint_block_id": -1,
        "rpc_get_thread_num": 1,
        "rpc_send_thread_num": 1,
        "rpc_prefetch_thread_num": 1,
    },
)
distributed_lookup_table = Op(
    "distributed_lookup_table",
    "Ids* W -> Outputs*",
    communicates=CommKind.LOOK_UP,
    lod="Ids",
    attrs={
        "table_names": STRINGS([""]),
        "height_sections": LONGS(),
        "endpoints": _SERVER,
        "trainer_id": 0,
        "padding_idx": LONG(-1),
        "dtype": int(VarType.FP32),
        "lookup_table_version": "lookup_table",
    },
    only_shape=("W",),
)


@distributed_lookup_table.shape
def _(Ids: list[Spec], W: Spec, lookup_table_version: str) -> tuple[list[Spec]]:
    if len(W.shape) != 2:
        raise ShapeError(
            f"op 'distributed_lookup_table': the table W must be a matrix, but has shape {list(W.shape)}"
        )
    # ids of the first version end in a dimension of one, which the rows take the place of
    kept = -1 if lookup_table_version == "lookup_table" else None
    return ([W.with_shape((*ids.shape[:kept], W.shape[1])) for ids in Ids],)


# ---------------------------------------------------------------------- pieces of a gradient
split_byref = Op("split_byref", "X. -> Out*", attrs={"sections": INTS(), "num": 0}, lod=None)


def _rows(height: int, num: int, sections: list[int]) -> list[int]:
    """Number of rows in each part."""
    if sections:
        if height >= 0 and sum(sections) != height:
            raise ShapeError(f"op 'split_byref': sections {sections} do not add up to the {height} rows of X")
        return sections
    if num <= 0 or height % num:
        raise ShapeError(f"op 'split_byref': {height} rows do not divide into {num} parts")
    return [height // num] * num


@split_byref.shape
def _(X: Spec, num: int, sections: list[int]) -> tuple[list[Spec]]:
    return ([X.with_shape((rows, *X.shape[1:])) for rows in _rows(X.shape[0], num, sections)],)


@split_byref.kernel
def _(xp: Any, X: Array, num: int, sections: list[int]) -> tuple[list[Array]]:
    starts = np.cumsum(_rows(len(X), num, sections))[:-1].tolist()
    return ([xp.ascontiguousarray(part) for part in xp.split(X, starts)],)


@split_byref.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit("concat", {"X": context.out_grad("Out")}, {"Out": context.in_grad("X")})


split_selected_rows = Op("split_selected_rows", "X -> Out*", attrs={"height_sections": LONGS()}, lod=None)


@split_selected_rows.shape
def _(X: Spec, height_sections: list[int]) -> tuple[list[Spec]]:
    return ([Spec((rows, *X.shape[1:]), X.dtype, kind=VarType.SELECTED_ROWS) for rows in height_sections],)


@split_selected_rows.kernel
def _(xp: Any, X: SelectedRows, height_sections: list[int]) -> tuple[list[SelectedRows]]:
    parts = []
    start = 0
    for rows in height_sections:
        mine = (X.ids >= start) & (X.ids < start + rows)
        # a server counts the rows of its slice from 0
        parts.append(SelectedRows(X.ids[mine] - start, rows, X.array[mine]))
        start += rows
    return (parts,)


@split_selected_rows.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit("sum", {"X": context.out_grad("Out")}, {"Out": context.in_grad("X")})


# ---------- ids by server: id i lives on server i % servers
split_ids = Op("split_ids", "Ids* -> Out*", lod=None, dynamic=True)


@split_ids.kernel
def _(xp: Any, ctx: Any, Ids: list[Any]) -> tuple[list[Any]]:
    servers = len(ctx.op.output("Out"))
    if isinstance(Ids[0], SelectedRows):
        rows = Ids[0]
        masks = [rows.ids % servers == server for server in range(servers)]
        return ([SelectedRows(rows.ids[mine], rows.height(), rows.array[mine]) for mine in masks],)
    # each id is asked for once, however often the batch has it
    ids = xp.unique(xp.concatenate([part.reshape(-1) for part in Ids]))
    return ([ids[ids % servers == server].reshape(-1, 1) for server in range(servers)],)


merge_ids = Op("merge_ids", "Ids* Rows* X* -> Out*", lod=None, dynamic=True)


@merge_ids.kernel
def _(xp: Any, Ids: list[Array], Rows: list[Array], X: list[Array]) -> tuple[list[Array]]:
    known = xp.concatenate([rows.reshape(-1) for rows in Rows])
    values = xp.concatenate(X)
    order = xp.argsort(known)
    return ([values[order[xp.searchsorted(known[order], ids.reshape(-1))]] for ids in Ids],)


# ---------------------------------------------------------------------- on a server
fake_init = Op("fake_init", "-> Out", attrs={"shape": required(AttrType.LONGS)}, lod=None)


@fake_init.kernel
def _(xp: Any, ctx: Any, shape: list[int]) -> Array | SelectedRows:
    # the table lives on the servers: one zero that claims to be all of it takes no memory
    dtype = ctx.op.block._var_recursive(ctx.op.output("Out")[0]).dtype
    return as_declared(ctx, xp.broadcast_to(xp.zeros((), to_numpy(dtype)), tuple(shape)))


ref_by_trainer_id = Op("ref_by_trainer_id", "X* TrainerId -> Out", lod=None, outside=("X", "TrainerId"))


@ref_by_trainer_id.shape
def _(X: list[Spec], TrainerId: Spec) -> Spec:
    return X[0].with_shape(X[0].shape)


@ref_by_trainer_id.kernel
def _(X: list[Array], TrainerId: Array) -> Array:
    trainer = int(TrainerId.reshape(-1)[0])
    if not 0 <= trainer < len(X):
        raise ValueError(f"trainer {trainer} is not one of the {len(X)} whose values are kept")
    return X[trainer].copy()


lookup_sparse_table = Op(
    "lookup_sparse_table",
    "W Ids -> Out",
    lod="Ids",
    dynamic=True,
    attrs={"padding_idx": LONG(-1), "auto_grown_table": True, "is_test": False},
    idle=("auto_grown_table",),
)


@lookup_sparse_table.kernel
def _(xp: Any, W: Any, Ids: Array, padding_idx: int, is_test: bool) -> Array:
    ids = Ids.reshape(-1)
    if not isinstance(W, SelectedRows):
        return look_up(xp, W, ids, padding_idx)
    # 1.8.5 never reads auto_grown_table
    if not is_test:
        _grow(xp, W, ids)
    at, known = positions(xp, W.ids, ids)
    rows = W.array[at]
    is_read = known & ((ids != padding_idx) | (padding_idx == NO_PADDING))
    return xp.where(is_read[:, None], rows, rows.dtype.type(0))


def _grow(xp: Any, table: SelectedRows, ids: Array) -> None:
    """Give each new id the next row of the table, in the order in which they come; the rows are there
    already.
    """
    _, known = positions(xp, table.ids, ids)
    fresh, first = xp.unique(ids[~known], return_index=True)
    if len(table.ids) + len(fresh) > len(table.array):
        raise EnforceNotMet(
            f"op 'lookup_sparse_table': there are {len(fresh)} new ids, but only "
            f"{len(table.array) - len(table.ids)} free rows in a table of {len(table.array)}"
        )
    table.set_rows(host(xp.concatenate([table.ids, fresh[xp.argsort(first)]])))
