"""Ops that make values from attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.base.registry import get
from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.lowering.device_rows import change_rows, kept_rows, sum_rows
from fluidlite.executor.fast.loops.tables import row_adder
from fluidlite.executor.plan.actions import InOut
from fluidlite.executor.plan.sizes import Made
from fluidlite.executor.plan.values import Value
from fluidlite.ops.tensors.creation import assigned, exact
from fluidlite.values.tensor import SelectedRows


@lowering("fill_constant")
def _(e: Emitter) -> None:
    if any(e.op.inputs.get(slot) for slot in ("ShapeTensorList", "ValueTensor")):
        raise CannotLower("tensors as attributes")
    declared = e.builder.block._find_var_recursive(e.op.outputs["Out"][0])
    if declared is not None and declared.type == VarType.SELECTED_ROWS:
        raise CannotLower("rows")
    # the output's shape has to be known now: it may be given by a tensor that is itself a constant
    given = _numbers(e.need("ShapeTensor")) if e.op.inputs.get("ShapeTensor") else e.attr("shape")
    shape = tuple(given)
    if any(dim < 0 for dim in shape):
        raise CannotLower("shape")
    dtype = to_numpy(VarType(e.attr("dtype")))
    # the text says numbers that a 32-bit attribute cannot hold
    number = exact(e.attr("str_value"), e.attr("value"), dtype).item()
    e.fill("Out", number, shape, dtype)


def _numbers(value: Value) -> Sequence[int]:
    """The numbers in a constant, which may be the sizes of an array."""
    if value.constant is None:
        raise CannotLower("a shape that is computed")
    if isinstance(value.constant, Made):
        if value.constant.function is not _shape_array:
            raise CannotLower("a shape that is computed")
        return value.constant.arguments
    return [int(dim) for dim in value.constant]


def _shape_array(*shape: int) -> Any:
    return np.array(shape, np.int32)


@lowering("assign_value")
def _(e: Emitter) -> None:
    if e.persistable("Out"):
        raise CannotLower("an array of its own")
    e.alias("Out", e.constant(assigned({name: e.attr(name) for name in get("assign_value").attr_defs})))


@lowering("shape")
def _(e: Emitter) -> None:
    shape = e.need("Input").shape
    assert shape is not None
    e.alias("Out", e.made((len(shape),), _shape_array, *shape))


@lowering("fill_zeros_like")
def _(e: Emitter) -> None:
    parts = kept_rows(e, e.any("X"))
    if parts:
        # an infinity times 0 would be NaN
        zero = e.number(0, parts[0].rows)
        change_rows(e, "where(x == zero, x, zero)", e.local("Out"), {"x": e.any("X")}, zero=zero)
        return
    x = e.need("X")
    e.fill("Out", 0, x.shape or (), x.dtype)


@lowering("scale")
def _(e: Emitter) -> None:
    if e.op.inputs.get("ScaleTensor"):
        raise CannotLower("ScaleTensor")
    x = e.need("X")
    scale = e.attr("scale")
    bias = e.attr("bias")
    if x.dtype is None or x.dtype.kind not in "fi":
        raise CannotLower("booleans")
    if x.dtype.kind == "i":
        # cut off as the kernel does; NumPy refuses numbers that the type does not have
        scale, bias = int(scale), int(bias)
        if max(abs(scale), abs(bias)) > np.iinfo(x.dtype).max:
            raise CannotLower("a value that the type cannot represent")
    out = e.out("Out", x.shape, x.dtype, inplace=True)
    # a bias of 0 and a scale of 1 would each cost a pass over the array; with both, -0 + 0 is 0
    if bias == 0.0:
        expr = "x + bias" if scale == 1.0 and x.dtype.kind == "f" else "x * scale"
    elif not e.attr("bias_after_scale"):
        expr = "(x + bias) * scale"
    else:
        expr = "x * scale + bias" if scale != 1.0 else "x + bias"
    e.elementwise(expr, out, x=x, scale=scale, bias=bias)


_HALF_AND_SINGLE = {"float16", "float32"}


@lowering("cast")
def _(e: Emitter) -> None:
    x = e.need("X")
    dtype = to_numpy(VarType(e.attr("out_dtype")))
    out = e.out("Out", x.shape, dtype)
    if x.dtype == dtype or (not e.on_host and {str(x.dtype), str(out.dtype)} == _HALF_AND_SINGLE):
        e.elementwise("x", out, x=x)
    else:
        # from floating point to whole numbers too, which NumPy does not do unasked
        e.copy(x, out, casting="unsafe")


@lowering("sum")
def _(e: Emitter) -> None:
    if sum_rows(e):
        return
    sparse = _sparse_parts(e)
    parts = [e.laid_need("X", index) for index in range(len(e.op.inputs["X"])) if index not in sparse]
    if not parts:
        raise CannotLower("rows only")
    first = parts[0]
    if any(part.shape != first.shape or part.dtype != first.dtype for part in parts):
        raise CannotLower("shapes differ")
    if len(parts) > 20:
        raise CannotLower("a sum of more than 20 arrays")
    names = [f"x{index}" for index in range(len(parts))]
    operands, out = e.laid_alike(dict(zip(names, parts, strict=True)), "Out", first, inplace=True)
    e.elementwise(" + ".join(names), out, **operands)
    if sparse:
        add = e.bind_fresh("added_rows", AddedRows, e.loops)
        e.run(add, *sparse.values(), InOut(out))


def _sparse_parts(e: Emitter) -> dict[int, Value]:
    """The gradients in a sum that have rows, by their places."""
    found = {}
    for index, name in enumerate(e.op.inputs["X"]):
        var = e.builder.block._find_var_recursive(name)
        if e.on_host and var is not None and var.type == VarType.SELECTED_ROWS:
            value = e.builder.value(e.op, "X", name)
            if value.maybe:
                raise CannotLower("an operand that may have no value")
            if not value.known:
                found[index] = value
    return found


class AddedRows:
    """Adds row-sparse gradients to an array: the decay of a whole table, of which a batch has some rows."""

    def __init__(self, xp: Any, loops: str) -> None:
        self.add = row_adder(xp, loops)

    def __call__(self, *operands: Any) -> None:
        *gradients, out = operands
        for gradient in gradients:
            if isinstance(gradient, SelectedRows):
                self.add(out, gradient.ids, gradient.array)
            else:  # what is declared as rows may be dense
                out += gradient


@lowering("increment")
def _(e: Emitter) -> None:
    x = e.need("X")
    if x.dtype is None:
        raise CannotLower("dtype")
    # the attribute is a float, and a float beside integers would make them floating point
    step = e.attr("step") if x.dtype.kind == "f" else int(e.attr("step"))
    out = e.out("Out", x.shape, x.dtype, inplace=True)
    e.elementwise("x + step", out, x=x, step=step)
