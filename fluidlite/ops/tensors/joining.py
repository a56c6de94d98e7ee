"""Tensors joined and split: concat, split, stack, unstack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.attr_limits import above, limited
from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.kept_attrs import ONEDNN
from fluidlite.base.registry import INTS, AttrType, GradContext, Lod, Op, Spec, get, handed_on, required
from fluidlite.ops.gradients import emits_once_more
from fluidlite.ops.kernels.numbers import check_axes, first_ints, ints
from fluidlite.values.tensor import lengths_of, offsets_of

# ---------------------------------------------------------------------- concat, split, stack
concat = Op(
    "concat",
    "X* AxisTensor? -> Out",
    attrs={"axis": 0, "use_quantizer": False},
    alike=("X",),
    moves=True,
    kept=ONEDNN,
    amp_fp16="gray",
)


@concat.shape
def _(X: list[Spec], AxisTensor: Spec | None, axis: int) -> Spec:
    first = X[0].shape
    if AxisTensor is not None:
        return X[0].with_shape([-1] * len(first))
    if not -len(first) <= axis < len(first):
        raise ShapeError(f"op 'concat': axis {axis} is outside of {len(first)} dimensions (X{list(first)})")
    axis %= len(first)
    for spec in X[1:]:
        if len(spec.shape) != len(first) or any(
            a != b and -1 not in (a, b)
            for i, (a, b) in enumerate(zip(first, spec.shape, strict=True))
            if i != axis
        ):
            raise ShapeError(
                f"op 'concat': X{list(first)} and X{list(spec.shape)} differ outside axis {axis}"
            )
    sizes = [spec.shape[axis] for spec in X]
    merged = [max(dims) for dims in zip(*(spec.shape for spec in X), strict=True)]
    merged[axis] = -1 if -1 in sizes else sum(sizes)
    return X[0].with_shape(merged)


@concat.kernel
def _(xp: Any, X: list[Array], X_lod: list[Lod], AxisTensor: Array | None, axis: int) -> Any:
    axis = axis if AxisTensor is None else ints(AxisTensor)[0]
    try:
        out = xp.concatenate([x for x in X if x.size or x.ndim > 1], axis=axis)
    except ValueError:
        shapes = ", ".join(f"X{list(x.shape)}" for x in X)
        raise ShapeError(f"op 'concat': {shapes} differ outside axis {axis}") from None
    same_depth = X_lod[0] and all(len(lod) == len(X_lod[0]) for lod in X_lod)
    return handed_on(out, _joined(X_lod) if same_depth and axis % X[0].ndim == 0 else ())


def _joined(lods: Sequence[Lod]) -> Lod:
    """The sequences of concatenated tensors."""
    levels = zip(*map(lengths_of, lods), strict=True)
    return offsets_of([[length for lengths in level for length in lengths] for level in levels])


@concat.grad("X")
def _(xp: Any, X: list[Array], AxisTensor: Array | None, dOut: Array, axis: int) -> tuple[list[Array]]:
    axis = axis if AxisTensor is None else ints(AxisTensor)[0]
    cuts = np.cumsum([x.shape[axis] for x in X])[:-1].tolist()
    return ([xp.ascontiguousarray(part) for part in xp.split(dOut, cuts, axis=axis)],)


emits_once_more(
    get("concat_grad"),
    reads={"AxisTensor": "AxisTensor"},
    incoming={"X": "X@GRAD"},
    writes={"Out": "Out@GRAD"},
    type="concat",
)

split = Op(
    "split",
    "X AxisTensor? SectionsTensorList*? -> Out*",
    attrs={"axis": 0, "num": 0, "sections": INTS()},
    lod=None,
    moves=True,
    amp_fp16="gray",
)


def _sections(size: int, num: int, sections: Sequence[int]) -> list[int]:
    """Sizes of the parts; one section may be -1, and takes what the others leave."""
    if num > 0:
        if size >= 0 and size % num:
            raise ShapeError(f"op 'split': dimension of {size} does not divide into {num} parts")
        return [size // num if size >= 0 else -1] * num
    known = [section for section in sections if section >= 0]
    if len(known) < len(sections) - 1:
        raise ShapeError(f"op 'split': sections {list(sections)} have more than one -1")
    rest = size - sum(known) if size >= 0 else -1
    if size >= 0 and ((len(known) == len(sections) and sum(known) != size) or rest < 0):
        raise ShapeError(f"op 'split': sections {list(sections)} do not add up to {size}")
    return [section if section >= 0 else rest for section in sections]


@split.shape
def _(
    X: Spec, AxisTensor: Spec | None, SectionsTensorList: list[Spec], axis: int, num: int, sections: list[int]
) -> tuple[list[Spec]]:
    if AxisTensor is not None:
        return ([Spec((-1,) * len(X.shape), X.dtype, X.lod_level)] * (num or len(sections)),)
    axis = axis % len(X.shape)
    sizes = sections if SectionsTensorList else _sections(X.shape[axis], num, sections)
    level = X.lod_level if axis else 0
    return ([Spec((*X.shape[:axis], size, *X.shape[axis + 1 :]), X.dtype, level) for size in sizes],)


@split.kernel
def _(
    xp: Any,
    X: Array,
    X_lod: Lod,
    AxisTensor: Array | None,
    SectionsTensorList: list[Array],
    axis: int,
    num: int,
    sections: list[int],
) -> tuple[list[Any]]:
    axis = axis if AxisTensor is None else ints(AxisTensor)[0]
    sizes = _sections(X.shape[axis], num, first_ints(SectionsTensorList) or sections)
    parts = [xp.ascontiguousarray(part) for part in xp.split(X, np.cumsum(sizes)[:-1].tolist(), axis=axis)]
    return ([handed_on(part, X_lod if axis % X.ndim else ()) for part in parts],)


@split.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit(
        "concat",
        {"X": context.out_grad("Out"), "AxisTensor": context.input("AxisTensor")},
        {"Out": context.in_grad("X")},
    )


stack = Op("stack", "X* -> Y", attrs={"axis": 0}, alike=("X",), moves=True, amp="gray")


@stack.shape
def _(X: list[Spec], axis: int) -> Spec:
    first = X[0].shape
    for spec in X[1:]:
        if len(spec.shape) != len(first) or any(
            a != b and -1 not in (a, b) for a, b in zip(first, spec.shape, strict=True)
        ):
            raise ShapeError(f"op 'stack': X{list(first)} and X{list(spec.shape)} differ")
    check_axes("stack", first, [axis], len(first) + 1)
    at = axis if axis >= 0 else axis + len(first) + 1
    known = [max(dims) for dims in zip(*(spec.shape for spec in X), strict=True)]
    return X[0].with_shape((*known[:at], len(X), *known[at:]))


@stack.kernel
def _(xp: Any, X: list[Array], axis: int) -> Array:
    return xp.stack(X, axis=axis)


def _parts(xp: Any, x: Array, axis: int) -> list[Array]:
    # a copy, because `ascontiguousarray` would make a single number an array of one element
    return [xp.asarray(part).copy() for part in xp.moveaxis(x, axis, 0)]


def _unstacked(spec: Spec, axis: int) -> list[Spec]:
    axis = axis % len(spec.shape)
    return [spec.with_shape(spec.shape[:axis] + spec.shape[axis + 1 :])] * max(spec.shape[axis], 1)


def _stack_grad_shape(dY: Spec, axis: int) -> tuple[list[Spec]]:
    return (_unstacked(dY, axis),)


@stack.grad("X", shape=_stack_grad_shape)
def _(xp: Any, dY: Array, axis: int) -> tuple[list[Array]]:
    return (_parts(xp, dY, axis),)


unstack = Op(
    "unstack",
    "X -> Y*",
    attrs={"axis": 0, "num": limited(required(AttrType.INT), above(0))},
    lod=None,
    amp="gray",
)


@unstack.shape
def _(X: Spec, axis: int, num: int) -> tuple[list[Spec]]:
    check_axes("unstack", X.shape, [axis])
    axis = axis % len(X.shape)
    if X.shape[axis] not in (num, -1):
        raise ShapeError(
            f"op 'unstack': X{list(X.shape)} has {X.shape[axis]} parts at axis {axis}, but num is {num}"
        )
    return ([X.with_shape(X.shape[:axis] + X.shape[axis + 1 :])] * num,)


@unstack.kernel
def _(xp: Any, X: Array, axis: int, num: int) -> tuple[list[Array]]:
    if X.shape[axis] != num:
        raise ShapeError(
            f"op 'unstack': X{list(X.shape)} has {X.shape[axis]} parts at axis {axis}, but num is {num}"
        )
    return (_parts(xp, X, axis),)


def _unstack_grad_shape(dY: list[Spec], axis: int) -> Spec:
    first = dY[0].shape
    at = axis if axis >= 0 else axis + len(first) + 1
    return dY[0].with_shape((*first[:at], len(dY), *first[at:]))


@unstack.grad("X", shape=_unstack_grad_shape)
def _(xp: Any, dY: list[Array], axis: int) -> Array:
    return xp.stack(dY, axis=axis)
