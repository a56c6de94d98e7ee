"""`paddle.tensor.linalg`: products, norms and decompositions of vectors and matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.base.registry import ZERO_DIM_ATTR
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.paddle.build import append, need_float, need_summable
from fluidlite.paddle.programs import begin
from fluidlite.paddle.tensor.reduction import axes_of

__all__ = [
    "addmm",
    "bmm",
    "cholesky",
    "cross",
    "dist",
    "dot",
    "histogram",
    "inverse",
    "matmul",
    "mm",
    "mv",
    "norm",
    "t",
    "trace",
]


def matmul(
    x: Variable, y: Variable, transpose_x: bool = False, transpose_y: bool = False, name: str | None = None
) -> Variable:
    """The product of matrices (or batches of them), or of vectors, with leading dimensions laid over each
    other.
    """
    attrs = {"trans_x": transpose_x, "trans_y": transpose_y}
    return append("matmul_v2", {"X": [x], "Y": [y]}, attrs, dtype=x.dtype, name=name)


def mm(input: Variable, mat2: Variable, name: str | None = None) -> Variable:
    """The product of two matrices."""
    inputs = {"X": [input], "Y": [mat2]}
    return append("matmul_v2", inputs, dtype=input.dtype, layer="mm", name=name)


def bmm(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The products of two batches of matrices."""
    return append("bmm", {"X": [x], "Y": [y]}, dtype=x.dtype, name=name)


def mv(x: Variable, vec: Variable, name: str | None = None) -> Variable:
    """The product of a matrix and a vector."""
    return append("mv", {"X": [x], "Vec": [vec]}, dtype=x.dtype, name=name)


def addmm(
    input: Variable, x: Variable, y: Variable, beta: float = 1.0, alpha: float = 1.0, name: str | None = None
) -> Variable:
    """beta * input + alpha * (x @ y)."""
    need_summable(input, "addmm")
    inputs = {"Input": [input], "X": [x], "Y": [y]}
    attrs = {"Alpha": float(alpha), "Beta": float(beta)}
    return append("addmm", inputs, attrs, dtype=x.dtype, name=name)


def dot(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The inner product of two vectors, or of each pair of rows."""
    inputs = {"X": [x], "Y": [y]}
    return append("dot", inputs, dtype=x.dtype, name=name, scalar=len(x.shape) == 1)


def cross(x: Variable, y: Variable, axis: int = 9, name: str | None = None) -> Variable:
    """The cross products along `axis`, which has 3 elements; 9 stands for the first such one."""
    return append("cross", {"X": [x], "Y": [y]}, {"dim": axis}, dtype=x.dtype, name=name)


def cholesky(x: Variable, upper: bool = False, name: str | None = None) -> Variable:
    """The triangular factor of symmetric positive definite matrices."""
    need_float(x, "cholesky")
    return append("cholesky", {"X": [x]}, {"upper": upper}, dtype=x.dtype, name=name)


def inverse(x: Variable, name: str | None = None) -> Variable:
    """The inverses of square matrices."""
    need_float(x, "inverse")
    return append("inverse", {"Input": [x]}, dtype=x.dtype, name=name, slot="Output")


def dist(x: Variable, y: Variable, p: float = 2, name: str | None = None) -> Variable:
    """The p-norm of x - y, as one number."""
    need_float(x, "dist")
    inputs = {"X": [x], "Y": [y]}
    return append("dist", inputs, {"p": float(p)}, dtype=x.dtype, name=name, scalar=True)


def t(input: Variable, name: str | None = None) -> Variable:
    """The transpose of a matrix; a vector or a number is its own."""
    if len(input.shape) > 2:
        raise ValueError(
            f"Input(input) only support N-D (N<=2) tensor, but received length of Input(input) is "
            f"{len(input.shape)}. Perhaps you can use paddle.tensor.transpose() instead."
        )
    if len(input.shape) < 2:
        return input
    kind = input.dtype
    return append(
        "transpose2",
        {"X": [input]},
        {"axis": [1, 0]},
        dtype=kind,
        layer="t",
        name=name,
        extra={"XShape": kind},
    )


def trace(x: Variable, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None) -> Variable:
    """The sum of a diagonal of each matrix in the dimensions `axis1` and `axis2`."""
    attrs = {"offset": offset, "axis1": axis1, "axis2": axis2}
    scalar = len(x.shape) == 2
    return append("trace", {"Input": [x]}, attrs, dtype=x.dtype, name=name, scalar=scalar)


def histogram(
    input: Variable, bins: int = 100, min: int = 0, max: int = 0, name: str | None = None
) -> Variable:
    """How many elements fall into each of `bins` equal parts of [min, max], or of their own range."""
    attrs = {"bins": bins, "min": min, "max": max}
    return append("histogram", {"X": [input]}, attrs, dtype=VarType.INT64, name=name)


# ---------------------------------------------------------------------- norms
def norm(
    x: Variable, p: Any = "fro", axis: Any = None, keepdim: bool = False, name: str | None = None
) -> Variable:
    """The p-norm over one or two dimensions, or of all elements; "fro" is the root of the sum of squares."""
    need_float(x, "norm")
    if isinstance(p, str) and p != "fro":
        raise ValueError(f"only valid string values are 'fro', found {p}")
    dims = list(axis) if isinstance(axis, (list, tuple)) and len(axis) > 1 else None
    if axis is None and p == "fro":
        return _frobenius(x, None, keepdim, name)
    if dims is None:
        one = axis[0] if isinstance(axis, (list, tuple)) else axis
        return _of_vector(x, 2.0 if p == "fro" else float(p), one, keepdim, name)
    if len(dims) != 2:
        raise ValueError(f"except axis type int or list (length of list <=2), found {axis}")
    if p == "fro":
        return _frobenius(x, dims, keepdim, name)
    if math.isinf(p):
        return _extreme(x, "reduce_max" if p > 0 else "reduce_min", dims, keepdim, name)
    if p == 0:
        raise ValueError(f"just support axis type int or list (length of list <=1) if p = 0, found {axis}")
    return _of_matrix(x, float(p), dims, keepdim, name)


def _frobenius(x: Variable, dims: Sequence[int] | None, keepdim: bool, name: str | None) -> Variable:
    _, whole = axes_of(x, dims)
    attrs: dict[str, Any] = {"keep_dim": keepdim, "reduce_all": dims is None}
    if dims is not None:
        attrs["dim"] = list(dims)
    scalar = whole and not keepdim
    return append("frobenius_norm", {"X": [x]}, attrs, dtype=x.dtype, name=name, scalar=scalar)


def _of_vector(x: Variable, p: float, axis: int | None, keepdim: bool, name: str | None) -> Variable:
    attrs = {
        "axis": -1 if axis is None else axis,
        "porder": p,
        "keepdim": keepdim,
        "asvector": axis is None,
        "epsilon": 1e-12,
    }
    scalar = (axis is None or len(x.shape) == 1) and not keepdim
    return append("p_norm", {"X": [x]}, attrs, dtype=x.dtype, name=name, scalar=scalar)


def _extreme(x: Variable, op_type: str, dims: list[int], keepdim: bool, name: str | None) -> Variable:
    begin()
    helper = LayerHelper("inf_norm", name=name)
    size, out = (helper.create_variable_for_type_inference(x.dtype) for _ in range(2))
    helper.append_op(type="abs", inputs={"X": [x]}, outputs={"Out": [size]})
    attrs, marks = _reduced(x, dims, keepdim, says_all=False)
    helper.append_op(type=op_type, inputs={"X": [size]}, outputs={"Out": [out]}, attrs={**attrs, **marks})
    return out


def _of_matrix(x: Variable, p: float, dims: list[int], keepdim: bool, name: str | None) -> Variable:
    """The p-th root of the sum of the p-th powers."""
    begin()
    helper = LayerHelper("norm", name=name)
    out, size, powers, total = (helper.create_variable_for_type_inference(x.dtype) for _ in range(4))
    attrs, marks = _reduced(x, dims, keepdim)
    steps: tuple[tuple[str, Variable, Variable, dict[str, Any]], ...] = (
        ("abs", x, size, {}),
        ("pow", size, powers, {"factor": p}),
        ("reduce_sum", powers, total, {**attrs, **marks}),
        ("pow", total, out, {"factor": 1.0 / p}),
    )
    for op_type, source, target, given in steps:
        helper.append_op(type=op_type, inputs={"X": [source]}, outputs={"Out": [target]}, attrs=given)
    return out


def _reduced(
    x: Variable, dims: list[int], keepdim: bool, says_all: bool = True
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Attributes of a reduction over `dims`, and the mark of a result of the shape []."""
    _, whole = axes_of(x, dims)
    attrs = {"dim": dims, "keep_dim": keepdim, "reduce_all": whole and says_all}
    return attrs, {ZERO_DIM_ATTR: ["Out"]} if whole and not keepdim else {}
