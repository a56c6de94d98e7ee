"""The same elements in another shape: reshape, squeeze, unsqueeze, flatten, transpose."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.kept_attrs import ONEDNN
from fluidlite.base.registry import INTS, OF_2X_ATTR, AttrType, Lod, Op, Spec, get, handed_on, later, required
from fluidlite.ops.gradients import emits_once_more
from fluidlite.ops.kernels.numbers import check_axes, contiguous, first_ints, ints, named_dims, unknown_sizes
from fluidlite.ops.signatures import takes

Shape = tuple[int, ...]


def remembered(xp: Any, x: Array) -> Array:
    """XShape: an array without elements, of shape (0, *X.shape). Gradients need no more of X."""
    return xp.empty((0, *x.shape), x.dtype)


def _with_gradient(
    first: str,
    second: str,
    slots: str,
    attrs: dict[str, Any],
    rule: Callable[..., Shape],
    shape_arguments: Sequence[str],
    amp: str = "",
    **facts: Any,
) -> None:
    """Declare `first` (whose gradient reads X) and `second` (whose gradient reads XShape); both only rename
    memory.

    `rule` gives the new shape from the old one and the arguments; `shape_arguments` are its attributes.
    `amp` is the list of `second`, and `facts` are fields of both.
    """
    for op_type, outputs, own in ((first, "Out", ""), (second, "Out XShape?", amp)):
        op = Op(op_type, f"{slots} -> {outputs}", attrs=attrs, lod=None, moves=True, amp=own, **facts)
        _declare_reshape(op, rule, shape_arguments, op_type == second)


def _declare_reshape(
    op: Op, rule: Callable[..., Shape], shape_arguments: Sequence[str], second: bool
) -> None:
    tensors = [slot for slot in op.inputs if slot != "X"]

    names = [*shape_arguments, *tensors]

    @op.shape
    @takes(["X", *names])
    def _(X: Spec, **given: Any) -> tuple[Spec, Spec] | Spec:
        shape = rule(X.shape, **given)
        # a tensor alone may say any number of rows, that of X among them
        keeps = _keeps_rows(X.shape, shape, given) or _is_open(**given)
        out = Spec(shape, X.dtype, X.lod_level if keeps else 0)
        return (out, _memory(X)) if second else out

    @op.kernel
    @takes(["xp", "ctx", "X", "X_lod", *names])
    def _(xp: Any, ctx: Any, X: Array, X_lod: Lod, **given: Any) -> Any:
        shape = rule(X.shape, **given)
        keeps = _keeps_rows(X.shape, shape, given)
        if not keeps and X_lod and ctx.op.block.program.is_of_2x:
            keeps = op.type in _KEEPS_IN_2X or same_rows(X.shape, shape)
        out = handed_on(X.reshape(shape), X_lod if keeps else ())
        return (out, remembered(xp, X)) if second else out

    if second:
        op.grad("X", shape=_shape_from_memory)(_grad_from_memory)
    else:
        op.grad("X")(_grad_from_all if op.type == "reshape" else _grad_from_x)


# 2.6.2's kernel hands on the level of whatever it is given
_KEEPS_IN_2X = ("reshape2",)

# tensors that say a shape: with them 1.8.5 knows it too late to see that rows stay what they are
_LATE = ("AxesTensor", "AxesTensorList", "ShapeTensor")


def _keeps_rows(old: Sequence[int], new: Sequence[int], given: Mapping[str, Any]) -> bool:
    """True if a reshape keeps the sequences of its rows."""
    late = [given[slot] for slot in _LATE if slot in given]
    # flatten multiplies the rows, which does not show where they are not declared
    if old and old[0] < 0 and math.prod(old[1 : given.get("axis", 1)]) != 1:
        return False
    return same_rows(old, new) and all(
        value is None or (isinstance(value, list) and not value) for value in late
    )


def _is_open(Shape: Any = None, shape: Sequence[int] = (), **_: Any) -> bool:
    """True if a tensor alone says the shape."""
    return Shape is not None and not shape


def same_rows(old: Sequence[int], new: Sequence[int]) -> bool:
    """True if the rows, and with them their sequences, stay what they were."""
    return bool(old) and bool(new) and old[0] == new[0]


def _memory(X: Spec) -> Spec:
    """XShape's declaration."""
    return Spec((0, *X.shape), X.dtype, X.lod_level)


def _shape_from_memory(XShape: Spec, dOut: Spec) -> Spec:
    return Spec(XShape.shape[1:], dOut.dtype)


def _grad_from_memory(XShape: Array, dOut: Array) -> Array:
    return dOut.reshape(XShape.shape[1:])


def _grad_from_x(X: Array, dOut: Array) -> Array:
    return dOut.reshape(X.shape)


def _grad_from_all(X: Array, Shape: Any, ShapeTensor: list[Any], Out: Any, dOut: Array) -> Array:
    """Paddle gives reshape_grad all that reshape had."""
    return dOut.reshape(X.shape)


def reshaped(old: Shape, shape: Sequence[int], Shape: Any = None, ShapeTensor: Sequence[Any] = ()) -> Shape:
    """The target of a reshape: 0 keeps a dimension, -1 is what is left."""
    if ShapeTensor and isinstance(ShapeTensor[0], Spec):
        # the attribute has -1 where a Variable stands, and the numbers that are known beside it
        shape = shape or [-1] * len(ShapeTensor)
        return tuple(old[i] if dim == 0 and i < len(old) else dim for i, dim in enumerate(shape))
    if ShapeTensor:
        shape = first_ints(ShapeTensor)
    elif isinstance(Shape, Spec) and not shape:
        return unknown_sizes(Shape.shape)
    elif Shape is not None and not isinstance(Shape, Spec):
        shape = ints(Shape)
    target = [old[i] if dim == 0 else dim for i, dim in enumerate(shape)]
    if target.count(-1) > 1 and all(dim >= 0 for dim in old):
        raise ShapeError(f"op 'reshape': shape {list(shape)} has more than one -1")
    if -1 in target and all(dim >= 0 for dim in old):
        rest = math.prod(dim for dim in target if dim != -1)
        if not rest or math.prod(old) % rest:
            raise ShapeError(
                f"op 'reshape': {list(old)} ({math.prod(old)} elements) does not fill shape {list(shape)}"
            )
        target[target.index(-1)] = math.prod(old) // rest
    elif all(dim >= 0 for dim in (*old, *target)) and math.prod(old) != math.prod(target):
        raise ShapeError(
            f"op 'reshape': {list(old)} has {math.prod(old)} elements, shape {list(shape)} has "
            f"{math.prod(target)}"
        )
    return tuple(target)


def squeezed(
    old: Shape,
    axes: Sequence[int],
    of_2x: bool = False,
    AxesTensor: Any = None,
    AxesTensorList: Sequence[Any] = (),
) -> Shape:
    """Without the given dimensions of one (without all of them when none is given); 2.x leaves others
    alone, and takes them from tensors.
    """
    if isinstance(AxesTensor, Spec):
        return (-1,) * max(len(old) - max(*AxesTensor.shape, 1, 1), 0)
    if AxesTensorList and isinstance(AxesTensorList[0], Spec):
        return (-1,) * max(len(old) - len(AxesTensorList), 0)
    if AxesTensor is not None:
        axes = ints(AxesTensor)
    if AxesTensorList:
        axes = first_ints(AxesTensorList)
    for axis in axes:  # a dimension may be named twice
        check_axes("squeeze", old, [axis], named_dims(old))
    if axes and old:
        drop = {axis % len(old) for axis in axes}
        if of_2x:
            drop = {axis for axis in drop if old[axis] in (1, -1)}
    else:
        drop = {i for i, dim in enumerate(old) if dim == 1}
    for axis in drop:
        if old[axis] not in (1, -1):
            raise ShapeError(f"op 'squeeze': dimension {axis} of X{list(old)} must be 1")
    return tuple(dim for i, dim in enumerate(old) if i not in drop)


def unsqueezed(
    old: Shape, axes: Sequence[int], AxesTensor: Any = None, AxesTensorList: Sequence[Any] = ()
) -> Shape:
    """With dimensions of one put in at `axes`, one after the other; tensors count where `axes` is empty."""
    if axes:
        return _inserted(old, axes)
    if isinstance(AxesTensor, Spec):
        # 2.x has one axis as a number, too
        if len(AxesTensor.shape) > 1:
            raise ShapeError(f"op 'unsqueeze': AxesTensor{list(AxesTensor.shape)} must have one dimension")
        return (-1,) * (len(old) + max(*AxesTensor.shape, 1, 1))
    if AxesTensorList and isinstance(AxesTensorList[0], Spec):
        return (-1,) * (len(old) + len(AxesTensorList))
    if AxesTensor is not None:
        axes = ints(AxesTensor)
    if AxesTensorList:
        axes = first_ints(AxesTensorList)
    return _inserted(old, axes)


def _inserted(old: Shape, axes: Sequence[int]) -> Shape:
    shape = list(old)
    for axis in axes:
        at = axis if axis >= 0 else axis + len(shape) + 1
        if not 0 <= at <= len(shape):
            raise ShapeError(f"op 'unsqueeze': axis {axis} is outside {list(old)}")
        shape.insert(at, 1)
    return tuple(shape)


def flattened(old: Shape, axis: int) -> Shape:
    """Two dimensions: those before `axis`, and the rest."""
    if not 0 <= axis <= len(old):
        raise ShapeError(f"op 'flatten': axis {axis} is outside {list(old)}")

    def product(dims: Shape) -> int:
        return -1 if any(dim < 0 for dim in dims) else math.prod(dims)

    return product(old[:axis]), product(old[axis:])


_with_gradient(
    "reshape",
    "reshape2",
    "X Shape? ShapeTensor*?",
    {"shape": INTS(), "use_quantizer": False},
    reshaped,
    ["shape"],
    amp="gray",
    tells_lod=True,
    captured=True,
)
_with_gradient(
    "squeeze",
    "squeeze2",
    "X AxesTensor? AxesTensorList*?",
    {"axes": INTS(), OF_2X_ATTR: later(False)},
    squeezed,
    ["axes", OF_2X_ATTR],
    later=("AxesTensor", "AxesTensorList"),
)
_with_gradient(
    "unsqueeze", "unsqueeze2", "X AxesTensor? AxesTensorList*?", {"axes": INTS()}, unsqueezed, ["axes"]
)
_with_gradient("flatten", "flatten2", "X", {"axis": 1}, flattened, ["axis"], amp="gray", captured=True)

emits_once_more(
    get("reshape2_grad"), reads={"DOut": "Out@GRAD"}, incoming={"DDX": "X@GRAD"}, writes={"DDOut": "Out@GRAD"}
)
for _type, _attr in (("squeeze2", ""), ("unsqueeze2", "axes")):
    emits_once_more(
        get(f"{_type}_grad"), incoming={"X": "X@GRAD"}, writes={"Out": "Out@GRAD"}, type=_type, attr=_attr
    )
reshape2_grad_grad = Op("reshape2_grad_grad", "DOut DDX -> DDOut?", lod=None).derive()


@reshape2_grad_grad.shape
def _(DOut: Spec) -> Spec:
    return DOut


@reshape2_grad_grad.kernel
def _(DOut: Array, DDX: Array) -> Array:
    return DDX.reshape(DOut.shape)


# 2.x's flatten
flatten_range = Op(
    "flatten_contiguous_range", "X -> Out XShape?", attrs={"start_axis": 1, "stop_axis": 1}, lod=None
)


def _merged(shape: Shape, start_axis: int, stop_axis: int) -> Shape:
    """`shape` with the dimensions start_axis to stop_axis, both included, in one."""
    if not shape:  # a single number becomes one element
        return (1,)
    start = start_axis % len(shape)
    stop = stop_axis % len(shape) + 1
    return (*shape[:start], math.prod(shape[start:stop]), *shape[stop:])


@flatten_range.shape
def _(X: Spec, start_axis: int, stop_axis: int) -> tuple[Spec, Spec]:
    out = Spec(_merged(X.shape, start_axis, stop_axis), X.dtype, X.lod_level)
    return out, Spec((0, *X.shape), X.dtype, 0)


@flatten_range.kernel
def _(xp: Any, X: Array, X_lod: Lod, start_axis: int, stop_axis: int) -> tuple[Any, Array]:
    out = X.reshape(_merged(X.shape, start_axis, stop_axis))
    # sequences are of rows: of other rows there are none
    is_of_rows = out.shape[:1] == X.shape[:1]
    return handed_on(out, X_lod if is_of_rows else ()), remembered(xp, X)


flatten_range.grad("X", shape=_shape_from_memory)(_grad_from_memory)


# ---------------------------------------------------------------------- transpose
def _declare_transpose(op_type: str, second: bool, **facts: Any) -> None:
    op = Op(
        op_type,
        "X -> Out XShape?" if second else "X. -> Out",
        attrs={"axis": required(AttrType.INTS), "data_format": "AnyLayout", "use_quantizer": False},
        lod=None,
        idle=("data_format",),
        moves=True,
        kept=ONEDNN,
        **facts,
    )

    @op.shape
    def _(X: Spec, axis: list[int]) -> tuple[Spec, Spec] | Spec:
        rank = len(X.shape)
        if sorted(i % rank if -rank <= i < 0 else i for i in axis) != list(range(rank)):
            raise ShapeError(
                f"op {op_type!r}: axis {axis} is not a permutation of the dimensions of X{list(X.shape)}"
            )
        out = Spec(tuple(X.shape[i] for i in axis), X.dtype, 0)
        return (out, _memory(X)) if second else out

    @op.kernel
    def _(xp: Any, X: Array, axis: list[int]) -> tuple[Array, Array] | Array:
        out = contiguous(xp, X.transpose(axis))
        return (out, remembered(xp, X)) if second else out

    def backward(xp: Any, dOut: Array, axis: list[int]) -> Array:
        return contiguous(xp, dOut.transpose(np.argsort([i % dOut.ndim for i in axis]).tolist()))

    if second:

        @op.grad("X", shape=_shape_from_memory)
        def _(xp: Any, XShape: Array, dOut: Array, axis: list[int]) -> Array:
            return backward(xp, dOut, axis)
    else:

        @op.grad("X")
        def _(xp: Any, X: Array, Out: Any, dOut: Array, axis: list[int]) -> Array:
            return backward(xp, dOut, axis)


_declare_transpose("transpose", False)
_declare_transpose("transpose2", True, amp="gray")
emits_once_more(
    get("transpose2_grad"), incoming={"X": "X@GRAD"}, writes={"Out": "Out@GRAD"}, type="transpose2"
)
