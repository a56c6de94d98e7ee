"""The same elements in another shape: reshape, transpose, squeeze, flatten, stack, split, slice, expand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import INTS, AttrType, GradContext, Lod, Op, Spec, WithLod, required
from fluidlite.values.tensor import host, lengths_of, offsets_of

Shape = tuple[int, ...]


def ints(value: Any) -> list[int]:
    """The numbers in an integer tensor."""
    return [int(item) for item in host(value).reshape(-1)]


def first_ints(values: Sequence[Any]) -> list[int]:
    """The numbers in a list of one-element tensors."""
    return [int(host(value).reshape(-1)[0]) for value in values]


def remembered(xp: Any, x: Array) -> Array:
    """XShape: an array without elements whose shape, behind a leading 0, is that of X. Gradients need no
    more of X.
    """
    return xp.empty((0, *x.shape), x.dtype)


def _with_gradient(
    first: str,
    second: str,
    slots: str,
    attrs: dict[str, Any],
    rule: Callable[..., Shape],
    shape_arguments: Sequence[str],
) -> None:
    """Declare `first` (whose gradient reads X) and `second` (whose gradient reads XShape); both only rename
    memory.

    `rule` gives the new shape from the old one and the arguments; `shape_arguments` are its attributes.
    """
    for op_type, outputs in ((first, "Out"), (second, "Out XShape?")):
        op = Op(op_type, f"{slots} -> {outputs}", attrs=attrs, lod=None)
        _declare_reshape(op, rule, shape_arguments, op_type == second)


def _declare_reshape(
    op: Op, rule: Callable[..., Shape], shape_arguments: Sequence[str], second: bool
) -> None:
    tensors = [slot for slot in op.inputs if slot != "X"]

    def infer(X: Spec, **given: Any) -> tuple[Spec, Spec] | Spec:
        shape = rule(X.shape, **given)
        out = Spec(shape, X.dtype, X.lod_level if _same_rows(X.shape, shape) else 0)
        return (out, _memory(X)) if second else out

    def compute(xp: Any, X: Array, X_lod: Lod, **given: Any) -> Any:
        shape = rule(X.shape, **given)
        out = WithLod(X.reshape(shape), X_lod) if X_lod and _same_rows(X.shape, shape) else X.reshape(shape)
        return (out, remembered(xp, X)) if second else out

    names = [*shape_arguments, *tensors]
    op.shape(_named(infer, ["X", *names]))
    op.kernel(_named(compute, ["xp", "X", "X_lod", *names]))
    if second:
        op.grad("X", shape=_shape_from_memory)(_grad_from_memory)
    else:
        op.grad("X")(_grad_from_all if op.type == "reshape" else _grad_from_x)


def _same_rows(old: Sequence[int], new: Sequence[int]) -> bool:
    """Whether the rows, and with them their sequences, stay what they were."""
    return bool(old) and bool(new) and old[0] == new[0]


def _memory(X: Spec) -> Spec:
    """XShape's declaration."""
    return Spec((0, *X.shape), X.dtype, X.lod_level)


def _named(function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """Give `function` the signature that the registry reads."""
    import inspect

    def call(**given: Any) -> Any:
        return function(**given)

    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
    )
    return call


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
    if ShapeTensor:
        shape = [-1] * len(ShapeTensor) if isinstance(ShapeTensor[0], Spec) else first_ints(ShapeTensor)
        if isinstance(ShapeTensor[0], Spec):
            return tuple(shape)
    elif isinstance(Shape, Spec) and not shape:
        return (-1,) * max(Shape.shape[0], 1)
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


def squeezed(old: Shape, axes: Sequence[int]) -> Shape:
    """Without the given dimensions of one (without all of them when none is given)."""
    drop = {axis % len(old) for axis in axes} if axes else {i for i, dim in enumerate(old) if dim == 1}
    for axis in drop:
        if old[axis] not in (1, -1):
            raise ShapeError(f"op 'squeeze': dimension {axis} of X{list(old)} must be 1")
    return tuple(dim for i, dim in enumerate(old) if i not in drop)


def unsqueezed(
    old: Shape, axes: Sequence[int], AxesTensor: Any = None, AxesTensorList: Sequence[Any] = ()
) -> Shape:
    """With dimensions of one put in at `axes`, one after the other."""
    if isinstance(AxesTensor, Spec):
        return (-1,) * (len(old) + max(AxesTensor.shape[0], 1))
    if AxesTensorList and isinstance(AxesTensorList[0], Spec):
        return (-1,) * (len(old) + len(AxesTensorList))
    if AxesTensor is not None:
        axes = ints(AxesTensor)
    if AxesTensorList:
        axes = first_ints(AxesTensorList)
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
)
_with_gradient("squeeze", "squeeze2", "X", {"axes": INTS()}, squeezed, ["axes"])
_with_gradient(
    "unsqueeze", "unsqueeze2", "X AxesTensor? AxesTensorList*?", {"axes": INTS()}, unsqueezed, ["axes"]
)
_with_gradient("flatten", "flatten2", "X", {"axis": 1}, flattened, ["axis"])


# ---------------------------------------------------------------------- transpose
def _declare_transpose(op_type: str, second: bool) -> None:
    op = Op(
        op_type,
        "X -> Out XShape?" if second else "X -> Out",
        attrs={"axis": required(AttrType.INTS), "data_format": "AnyLayout", "use_quantizer": False},
        lod=None,
    )

    @op.shape
    def _(X: Spec, axis: list[int]) -> tuple[Spec, Spec] | Spec:
        if sorted(axis) != list(range(len(X.shape))):
            raise ShapeError(
                f"op {op_type!r}: axis {axis} is no permutation of the dimensions of X{list(X.shape)}"
            )
        out = Spec(tuple(X.shape[i] for i in axis), X.dtype, 0)
        return (out, _memory(X)) if second else out

    @op.kernel
    def _(xp: Any, X: Array, axis: list[int]) -> tuple[Array, Array] | Array:
        out = xp.ascontiguousarray(X.transpose(axis))
        return (out, remembered(xp, X)) if second else out

    def backward(xp: Any, dOut: Array, axis: list[int]) -> Array:
        return xp.ascontiguousarray(dOut.transpose(np.argsort(axis).tolist()))

    if second:

        @op.grad("X", shape=_shape_from_memory)
        def _(xp: Any, XShape: Array, dOut: Array, axis: list[int]) -> Array:
            return backward(xp, dOut, axis)
    else:

        @op.grad("X")
        def _(xp: Any, X: Array, Out: Any, dOut: Array, axis: list[int]) -> Array:
            return backward(xp, dOut, axis)


_declare_transpose("transpose", False)
_declare_transpose("transpose2", True)

# ---------------------------------------------------------------------- concat, split, stack
concat = Op("concat", "X* AxisTensor? -> Out", attrs={"axis": 0, "use_quantizer": False})


@concat.shape
def _(X: list[Spec], AxisTensor: Spec | None, axis: int) -> Spec:
    first = X[0].shape
    if AxisTensor is not None:
        return X[0].with_shape([-1] * len(first))
    axis = axis % len(first) if first else 0
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
    out = xp.concatenate([x for x in X if x.size or x.ndim > 1], axis=axis)
    same_depth = X_lod[0] and all(len(lod) == len(X_lod[0]) for lod in X_lod)
    return WithLod(out, _joined(X_lod)) if same_depth and axis % X[0].ndim == 0 else out


def _joined(lods: Sequence[Lod]) -> Lod:
    """The sequences of tensors laid behind each other."""
    levels = zip(*map(lengths_of, lods), strict=True)
    return offsets_of([[length for lengths in level for length in lengths] for level in levels])


@concat.grad("X")
def _(xp: Any, X: list[Array], AxisTensor: Array | None, dOut: Array, axis: int) -> tuple[list[Array]]:
    axis = axis if AxisTensor is None else ints(AxisTensor)[0]
    cuts = np.cumsum([x.shape[axis] for x in X])[:-1].tolist()
    return ([xp.ascontiguousarray(part) for part in xp.split(dOut, cuts, axis=axis)],)


split = Op(
    "split",
    "X AxisTensor? SectionsTensorList*? -> Out*",
    attrs={"axis": 0, "num": 0, "sections": INTS()},
    lod=None,
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
        return ([X.with_shape([-1] * len(X.shape))] * (num or len(sections)),)
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
    return ([WithLod(part, X_lod) for part in parts] if X_lod and axis % X.ndim else parts,)


@split.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit(
        "concat",
        {"X": context.out_grad("Out"), "AxisTensor": context.input("AxisTensor")},
        {"Out": context.in_grad("X")},
    )


stack = Op("stack", "X* -> Y", attrs={"axis": 0})


@stack.shape
def _(X: list[Spec], axis: int) -> Spec:
    first = X[0].shape
    for spec in X[1:]:
        if len(spec.shape) != len(first) or any(
            a != b and -1 not in (a, b) for a, b in zip(first, spec.shape, strict=True)
        ):
            raise ShapeError(f"op 'stack': X{list(first)} and X{list(spec.shape)} differ")
    at = axis if axis >= 0 else axis + len(first) + 1
    return X[0].with_shape((*first[:at], len(X), *first[at:]))


@stack.kernel
def _(xp: Any, X: list[Array], axis: int) -> Array:
    return xp.stack(X, axis=axis)


def _parts(xp: Any, x: Array, axis: int) -> list[Array]:
    return [xp.ascontiguousarray(part) for part in xp.moveaxis(x, axis, 0)]


def _unstacked(spec: Spec, axis: int) -> list[Spec]:
    axis = axis % len(spec.shape)
    return [spec.with_shape(spec.shape[:axis] + spec.shape[axis + 1 :])] * max(spec.shape[axis], 1)


def _stack_grad_shape(dY: Spec, axis: int) -> tuple[list[Spec]]:
    return (_unstacked(dY, axis),)


@stack.grad("X", shape=_stack_grad_shape)
def _(xp: Any, dY: Array, axis: int) -> tuple[list[Array]]:
    return (_parts(xp, dY, axis),)


unstack = Op("unstack", "X -> Y*", attrs={"axis": 0, "num": required(AttrType.INT)}, lod=None)


@unstack.shape
def _(X: Spec, axis: int, num: int) -> tuple[list[Spec]]:
    axis = axis % len(X.shape)
    return ([X.with_shape(X.shape[:axis] + X.shape[axis + 1 :])] * num,)


@unstack.kernel
def _(xp: Any, X: Array, axis: int) -> tuple[list[Array]]:
    return (_parts(xp, X, axis),)


def _unstack_grad_shape(dY: list[Spec], axis: int) -> Spec:
    first = dY[0].shape
    at = axis if axis >= 0 else axis + len(first) + 1
    return dY[0].with_shape((*first[:at], len(dY), *first[at:]))


@unstack.grad("X", shape=_unstack_grad_shape)
def _(xp: Any, dY: list[Array], axis: int) -> Array:
    return xp.stack(dY, axis=axis)


# ---------------------------------------------------------------------- expand
expand = Op("expand", "X ExpandTimes? expand_times_tensor*? -> Out", attrs={"expand_times": INTS()}, lod=None)


@expand.shape
def _(X: Spec, ExpandTimes: Spec | None, expand_times_tensor: list[Spec], expand_times: list[int]) -> Spec:
    if ExpandTimes is not None or (expand_times_tensor and not expand_times):
        return X.with_shape([-1] * len(X.shape))
    if len(expand_times) != len(X.shape):
        raise ShapeError(
            f"op 'expand': expand_times {expand_times} must have one number for each dimension of "
            f"X{list(X.shape)}"
        )
    shape = tuple(
        -1 if dim < 0 or times < 0 else dim * times for dim, times in zip(X.shape, expand_times, strict=True)
    )
    return Spec(shape, X.dtype, X.lod_level if _same_rows(X.shape, shape) else 0)


def _times(ExpandTimes: Any, tensors: Sequence[Any], expand_times: list[int]) -> list[int]:
    return ints(ExpandTimes) if ExpandTimes is not None else first_ints(tensors) or expand_times


@expand.kernel
def _(
    xp: Any,
    X: Array,
    X_lod: Lod,
    ExpandTimes: Array | None,
    expand_times_tensor: list[Array],
    expand_times: list[int],
) -> Any:
    out = xp.tile(X, _times(ExpandTimes, expand_times_tensor, expand_times))
    return WithLod(out, X_lod) if X_lod and _same_rows(X.shape, out.shape) else out


def untiled(xp: Any, d: Array, shape: Shape, times: Sequence[int]) -> Array:
    """The sum over the copies that `tile` made."""
    split_shape = [n for pair in zip(times, shape, strict=True) for n in pair]
    return d.reshape(split_shape).sum(axis=tuple(range(0, 2 * len(shape), 2)), dtype=d.dtype)


@expand.grad("X")
def _(
    xp: Any,
    X: Array,
    ExpandTimes: Array | None,
    expand_times_tensor: list[Array],
    dOut: Array,
    expand_times: list[int],
) -> Array:
    return untiled(xp, dOut, X.shape, _times(ExpandTimes, expand_times_tensor, expand_times))


expand_as = Op("expand_as", "X target_tensor -> Out", lod=None)


@expand_as.shape
def _(X: Spec, target_tensor: Spec) -> Spec:
    return X.with_shape(target_tensor.shape)


@expand_as.kernel
def _(xp: Any, X: Array, target_tensor: Array) -> Array:
    return xp.tile(X, [b // a for a, b in zip(X.shape, target_tensor.shape, strict=True)])


@expand_as.grad("X")
def _(xp: Any, X: Array, target_tensor: Array, dOut: Array) -> Array:
    return untiled(xp, dOut, X.shape, [b // a for a, b in zip(X.shape, dOut.shape, strict=True)])
