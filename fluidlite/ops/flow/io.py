"""Values that come into a program or leave it: feeds, fetches, files, readers."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from fluidlite.base.attr_limits import limited, one_of
from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import MissingFileError
from fluidlite.base.registry import LONG, LONGS, AttrType, Lod, Op, Spec, WithLod, required
from fluidlite.reading.queues import BlockingQueue, QueueReader
from fluidlite.values.serialize import ValueReader, replace_file, tensor_pieces, value_pieces
from fluidlite.values.tensor import LoDTensor, LoDTensorArray, SelectedRows, host

_INT = required(AttrType.INT)
_INTS = required(AttrType.INTS)
_STRING = required(AttrType.STRING)
_MOST_FETCHED = 1 << 16

# ---------------------------------------------------------------------- feed, fetch
# `Executor.run` feeds and fetches by name; these ops serve whoever puts a list of tensors into the scope, as
# Paddle does
feed = Op(
    "feed", "X? -> Out", attrs={"col": _INT}, dynamic=True, makes_lod=True, booleans=True, boundary=True
)


@feed.kernel
def _(xp: Any, X: Any, col: int) -> Any:
    if X is None:
        return None
    tensor = X[col]
    if isinstance(tensor, LoDTensor):
        return WithLod(xp.asarray(host(tensor.array)), tensor._lod)
    return xp.asarray(tensor)


fetch = Op("fetch", "X -> Out", attrs={"col": _INT}, lod=None, effect=True, booleans=True, boundary=True)


@fetch.kernel
def _(X: Any, X_lod: Lod, Out: Any, col: int) -> LoDTensorArray:
    fetched = LoDTensorArray(Out or ())
    if not 0 <= col < _MOST_FETCHED:
        raise ValueError(
            f"position {col} of a result is out of range: positions go from 0 to {_MOST_FETCHED - 1}"
        )
    # fetch ops may come in any order, so the list grows to the position that is asked for
    fetched.extend(LoDTensor() for _ in range(col + 1 - len(fetched)))
    is_dense = hasattr(X, "dtype") and not isinstance(X, SelectedRows)
    # a copy: the next run may write over the array
    fetched[col] = LoDTensor(X.copy(), X_lod) if is_dense else X
    return fetched


# ---------------------------------------------------------------------- files
_SAVE = {"file_path": _STRING, "overwrite": True, "save_as_fp16": False}
save = Op("save", "X -> kLookupTablePath?", attrs=_SAVE, effect=True, lod=None, reaches="writes a file")


def _may_write(path: str, overwrite: bool) -> None:
    if not overwrite and os.path.exists(path):
        raise ValueError(f"{path} exists, and overwrite is False")


@save.kernel
def _(X: Any, X_lod: Lod, file_path: str, overwrite: bool, save_as_fp16: bool) -> dict[str, Any]:
    _may_write(file_path, overwrite)
    value = X if isinstance(X, SelectedRows) else LoDTensor(X, X_lod)
    replace_file(file_path, value_pieces(value, np.float16 if save_as_fp16 else None))
    return {}


save_combine = Op(
    "save_combine",
    "X* -> Y?",
    attrs={**_SAVE, "save_to_memory": False},
    effect=True,
    lod=None,
    reaches="writes a file",
)


@save_combine.kernel
def _(
    ctx: Any,
    X: list[Array],
    X_lod: list[Lod],
    file_path: str,
    overwrite: bool,
    save_as_fp16: bool,
    save_to_memory: bool,
) -> dict[str, Any]:
    dtype = np.float16 if save_as_fp16 else None
    tensors = map(LoDTensor, X, X_lod)
    chunks = (piece for tensor in tensors for piece in tensor_pieces(tensor, dtype))
    if save_to_memory:
        ctx.scope.var(ctx.op.output("Y")[0]).set(b"".join(chunks))
        return {}
    _may_write(file_path, overwrite)
    replace_file(file_path, chunks)
    return {}


def _missing(path: str) -> MissingFileError:
    return MissingFileError(f"cannot open {path}: the model's files are incomplete, or are in another folder")


def _loaded(ctx: Any, value: LoDTensor | SelectedRows, as_fp16: bool) -> Any:
    """A loaded value as a kernel returns it, on the place of the run."""

    def place(array: Array) -> Any:
        return ctx.xp.asarray(array.astype(np.float16) if as_fp16 else array)

    if isinstance(value, SelectedRows):
        return SelectedRows(value.ids, value.height(), place(value.array))
    return WithLod(place(value.array), value._lod)


load = Op(
    "load",
    "-> Out",
    lod=None,
    effect=True,
    dynamic=True,
    attrs={"file_path": _STRING, "load_as_fp16": False, "seek": LONG(-1), "shape": LONGS()},
    reaches="reads a file",
    makes_lod=True,
)


@load.kernel
def _(ctx: Any, file_path: str, load_as_fp16: bool, seek: int, shape: list[int]) -> Any:
    var = ctx.op.block._find_var_recursive(ctx.op.output("Out")[0])
    try:
        with ValueReader.open(file_path) as source:
            if var is not None and var.type == VarType.SELECTED_ROWS:
                return _loaded(ctx, source.selected_rows(), load_as_fp16)
            value = source.tensor()
    except FileNotFoundError:
        raise _missing(file_path) from None
    # a slice of a parameter: `shape` from element `seek` on
    if seek >= 0:
        count = int(np.prod(shape, dtype=np.int64))
        value = LoDTensor(host(value.array).reshape(-1)[seek : seek + count].reshape(shape))
    return _loaded(ctx, value, load_as_fp16)


load_combine = Op(
    "load_combine",
    "-> Out*",
    lod=None,
    effect=True,
    dynamic=True,
    attrs={"file_path": _STRING, "load_as_fp16": False, "model_from_memory": False},
    reaches="reads a file",
    makes_lod=True,
)


@load_combine.kernel
def _(ctx: Any, file_path: str, load_as_fp16: bool, model_from_memory: bool) -> dict[str, list[Any]]:
    count = len(ctx.op.output("Out"))
    if model_from_memory:
        # the bytes themselves travel in the attribute, which is text
        data = file_path.encode(errors="surrogateescape")
        tensors = ValueReader.of_bytes(data).tensors(count)
    else:
        try:
            with ValueReader.open(file_path) as source:
                tensors = source.tensors(count)
        except FileNotFoundError:
            raise _missing(file_path) from None
    return {"Out": [_loaded(ctx, value, load_as_fp16) for value in tensors]}


# ---------------------------------------------------------------------- readers
_READER_ATTRS = {
    "shape_concat": _INTS,
    "lod_levels": _INTS,
    "dtypes": _INTS,
    "need_check_feed": _INTS,
    "ranks": _INTS,
    "use_data_config": True,
    "device_index": 0,
    "device_count": 1,
}
create_py_reader = Op(
    "create_py_reader",
    "blocking_queue -> Out",
    attrs=_READER_ATTRS,
    lod=None,
    effect=True,
    outside=("blocking_queue",),
)


@create_py_reader.kernel
def _(
    ctx: Any,
    blocking_queue: Any,
    Out: Any,
    shape_concat: list[int],
    lod_levels: list[int],
    dtypes: list[int],
    need_check_feed: list[int],
    ranks: list[int],
) -> QueueReader:
    if not isinstance(blocking_queue, BlockingQueue):
        raise TypeError(
            f"{ctx.op.input('blocking_queue')} holds a {type(blocking_queue).__name__}, not a queue"
        )
    # the startup program may run again while a loader is in use
    if isinstance(Out, QueueReader) and Out.queue is blocking_queue:
        return Out
    specs = []
    start = 0
    for rank, dtype, level in zip(ranks, dtypes, lod_levels, strict=True):
        specs.append(Spec(tuple(shape_concat[start : start + rank]), VarType(dtype), level))
        start += rank
    return QueueReader(blocking_queue, specs, [bool(check) for check in need_check_feed])


# A reader's queue is filled ahead by a thread already, so this op passes its reader on
create_double_buffer_reader = Op(
    "create_double_buffer_reader",
    "UnderlyingReader -> Out",
    attrs={"place": "AUTO"},
    lod=None,
    effect=True,
    idle=("place",),
)


@create_double_buffer_reader.kernel
def _(UnderlyingReader: Any) -> Any:
    return UnderlyingReader


read = Op(
    "read",
    "Reader -> Out*",
    attrs={"drop_last": True, "infer_out": True, "throw_eof_exp": True},
    lod=None,
    effect=True,
    dynamic=True,
    makes_lod=True,
    once=True,
)


@read.kernel
def _(xp: Any, Reader: Any) -> dict[str, list[Any]]:
    return {"Out": [WithLod(xp.asarray(host(tensor.array)), tensor._lod) for tensor in Reader.read_next()]}


# ---------------------------------------------------------------------- what a run has
delete_var = Op("delete_var", "X* ->", effect=True, lod=None)


@delete_var.kernel
def _(ctx: Any) -> dict[str, Any]:
    ctx.scope.erase(ctx.op.input("X"))
    for name in ctx.op.input("X"):
        ctx.frame.values.pop(name, None)
    return {}


get_places = Op(
    "get_places",
    "-> Out",
    attrs={"device_count": 0, "device_type": limited("AUTO", one_of("AUTO", "CPU", "CUDA"))},
    lod=None,
    idle=("device_type",),
)


@get_places.shape
def _() -> Spec:
    return Spec((), VarType.FP32, 0, VarType.PLACE_LIST)


@get_places.kernel
def _(ctx: Any, device_count: int) -> list[Any]:
    return [ctx.place] * max(device_count, 1)
