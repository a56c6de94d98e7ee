"""Matrix products: BLAS calls into given buffers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.plan.values import Value


def matrix(e: Emitter, value: Value, cols: int) -> Value:
    """`value` with its first `cols` dimensions as rows and the rest as columns."""
    assert value.shape is not None
    height = math.prod(value.shape[:cols])
    width = math.prod(value.shape[cols:])
    return e.reshape(value, (height, width))


def transposed(e: Emitter, value: Value) -> Value:
    """The transpose of a matrix, as a view."""
    return e.transpose(value, (1, 0))


def _check_fit(left: Value, right: Value) -> None:
    """CannotLower where columns and rows differ: the portable kernel says what is wrong."""
    assert left.shape is not None and right.shape is not None
    if left.shape[-1] != right.shape[-2]:
        raise CannotLower("the columns of X are not as many as the rows of Y")


@lowering("mul")
def _(e: Emitter) -> None:
    x = e.need("X")
    y = e.need("Y")
    assert x.shape is not None and y.shape is not None
    rows = e.attr("x_num_col_dims")
    cols = e.attr("y_num_col_dims")
    left = matrix(e, x, rows)
    right = matrix(e, y, cols)
    _check_fit(left, right)
    out = e.out("Out", x.shape[:rows] + y.shape[cols:], x.dtype)
    e.call("dot", left, right, out=matrix(e, out, rows))


@lowering("mul_grad")
def _(e: Emitter) -> None:
    x = e.need("X")
    y = e.need("Y")
    d = e.need("Out@GRAD")
    rows = e.attr("x_num_col_dims")
    cols = e.attr("y_num_col_dims")
    left = matrix(e, x, rows)
    right = matrix(e, y, cols)
    assert left.shape is not None and right.shape is not None
    grad = e.reshape(d, (left.shape[0], right.shape[1]))
    if e.wants("X@GRAD"):
        out = e.out("X@GRAD", x.shape, x.dtype)
        e.call("dot", grad, transposed(e, right), out=matrix(e, out, rows))
    if e.wants("Y@GRAD"):
        out = e.out("Y@GRAD", y.shape, y.dtype)
        e.call("dot", transposed(e, left), grad, out=matrix(e, out, cols))


def _operand(e: Emitter, value: Value, transpose: bool) -> Value:
    assert value.shape is not None
    if len(value.shape) < 2:
        raise CannotLower("matmul of a vector")
    if not transpose:
        return value
    rank = len(value.shape)
    return e.transpose(value, (*range(rank - 2), rank - 1, rank - 2))


def _product(e: Emitter, x: Value, y: Value, out: Value, alpha: float) -> None:
    """out = alpha * x @ y for operands of the same batch dimensions (or none on one side)."""
    assert x.shape is not None and y.shape is not None and out.shape is not None
    # `dot` hands two matrices straight to BLAS; stacks of them are `matmul`'s
    function = "dot" if len(x.shape) == len(y.shape) == 2 else "matmul"
    e.call(function, x, y, out=out)
    if alpha != 1.0:
        e.call("multiply", out, e.number(alpha, out), out=out)


def _same_batch(x: Sequence[int], y: Sequence[int]) -> bool:
    return tuple(x[:-2]) == tuple(y[:-2])


@lowering("matmul")
def _(e: Emitter) -> None:
    if e.attr("head_number") > 1:
        raise CannotLower("several heads")
    x = _operand(e, e.need("X"), e.attr("transpose_X"))
    y = _operand(e, e.need("Y"), e.attr("transpose_Y"))
    assert x.shape is not None and y.shape is not None
    if not _same_batch(x.shape, y.shape):
        raise CannotLower("batches differ")
    _check_fit(x, y)
    out = e.out("Out", (*x.shape[:-1], y.shape[-1]), x.dtype)
    _product(e, x, y, out, e.attr("alpha"))


@lowering("matmul_grad")
def _(e: Emitter) -> None:
    if e.attr("head_number") > 1:
        raise CannotLower("several heads")
    x = e.need("X")
    y = e.need("Y")
    d = e.need("Out@GRAD")
    assert x.shape is not None and y.shape is not None and d.shape is not None
    # the gradient of a stack that was broadcast has to be summed, which the portable kernel does
    if not _same_batch(x.shape, y.shape) or len(x.shape) < 2:
        raise CannotLower("batches differ")
    tx = e.attr("transpose_X")
    ty = e.attr("transpose_Y")
    alpha = e.attr("alpha")
    if e.wants("X@GRAD"):
        out = e.out("X@GRAD", x.shape, x.dtype)
        if tx:
            _product(e, _operand(e, y, ty), _operand(e, d, True), out, alpha)
        else:
            _product(e, d, _operand(e, y, not ty), out, alpha)
    if e.wants("Y@GRAD"):
        out = e.out("Y@GRAD", y.shape, y.dtype)
        if ty:
            _product(e, _operand(e, d, True), _operand(e, x, tx), out, alpha)
        else:
            _product(e, _operand(e, x, not tx), d, out, alpha)
