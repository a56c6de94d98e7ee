"""Matrix products: BLAS calls into given buffers."""

from __future__ import annotations

import math

from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.fixed_products import begin_product
from fluidlite.executor.compile.lowering.strided import for_product, reshaped_view
from fluidlite.executor.plan.values import Transpose, Value


def matrix(e: Emitter, value: Value, cols: int) -> Value:
    """`value` with its first `cols` dimensions as rows and the rest as columns."""
    assert value.shape is not None
    height = math.prod(value.shape[:cols])
    width = math.prod(value.shape[cols:])
    found = e.reshape(value, (height, width))
    reshaped_view(e, value, found)
    return found


def transposed(e: Emitter, value: Value) -> Value:
    """The transpose of a matrix, as a view."""
    return e.transpose(value, (1, 0))


def _check_fit(left: Value, right: Value) -> None:
    """CannotLower where columns and rows differ: the portable kernel says what is wrong."""
    assert left.shape is not None and right.shape is not None
    if left.shape[-1] != right.shape[-2]:
        raise CannotLower("the number of columns of X differs from the number of rows of Y")


def _multiply(e: Emitter, x: Value, y: Value, out: Value, alpha: float = 1.0) -> None:
    """out = alpha * x @ y for two matrices, or two stacks of as many."""
    assert out.shape is not None
    # `dot` hands two matrices straight to BLAS, and copies what `matmul` reads by its strides
    is_plain = len(out.shape) == 2 and _is_plain(x) and _is_plain(y)
    # by a matrix of one element `dot` scales, and skips a factor of 0 whatever it would meet
    is_plain = is_plain and x.size != 1 and y.size != 1
    function = "dot" if is_plain else "matmul"
    if alpha == 1.0:
        e.call(function, x, y, out=out)
        return
    # a step of its own, for the loop of element-wise steps around it
    product = e.temp(out.shape, out.dtype)
    e.call(function, x, y, out=product)
    e.elementwise("product * alpha", out, product=product, alpha=alpha)


def _multiply_forward(e: Emitter, x: Value, y: Value, out: Value, alpha: float = 1.0) -> None:
    """The same where y may be a weight that stays as it is."""
    if alpha != 1.0 or not begin_product(e, x, y, out):
        _multiply(e, x, y, out, alpha)


def _is_plain(value: Value) -> bool:
    """True for a whole matrix, or the transpose of one."""
    is_turned = isinstance(value.view, Transpose) and value.base is not None
    return value.base.contiguous if is_turned and value.base is not None else value.contiguous


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
    _multiply_forward(e, for_product(e, left), for_product(e, right), matrix(e, out, rows))


@lowering("mul_grad")
def _(e: Emitter) -> None:
    x = e.need("X")
    y = e.need("Y")
    d = e.need("Out@GRAD")
    rows = e.attr("x_num_col_dims")
    cols = e.attr("y_num_col_dims")
    left = for_product(e, matrix(e, x, rows))
    right = for_product(e, matrix(e, y, cols))
    assert left.shape is not None and right.shape is not None
    whole = e.reshape(d, (left.shape[0], right.shape[1]))
    reshaped_view(e, d, whole)
    grad = for_product(e, whole)
    if e.wants("X@GRAD"):
        out = e.out("X@GRAD", x.shape, x.dtype)
        _multiply(e, grad, transposed(e, right), matrix(e, out, rows))
    if e.wants("Y@GRAD"):
        out = e.out("Y@GRAD", y.shape, y.dtype)
        _multiply(e, transposed(e, left), grad, matrix(e, out, cols))


# ---------------------------------------------------------------------- stacks of matrices
def _settings(e: Emitter) -> tuple[bool, bool, float]:
    """transpose X, transpose Y, alpha, by the attributes of the op's kind."""
    if e.op.type.startswith("matmul_v2"):
        return e.attr("trans_x"), e.attr("trans_y"), 1.0
    if e.op.type.startswith("bmm"):
        return False, False, 1.0
    if e.attr("head_number") > 1:
        raise CannotLower("several heads")
    if not e.attr("alpha"):
        raise CannotLower("a product that is not read")
    return e.attr("transpose_X"), e.attr("transpose_Y"), e.attr("alpha")


def _turned(e: Emitter, value: Value, transpose: bool) -> Value:
    """A stack of matrices as a product reads it, transposed where it has to be."""
    found = for_product(e, value)
    assert found.shape is not None
    rank = len(found.shape)
    return e.transpose(found, (*range(rank - 2), rank - 1, rank - 2)) if transpose else found


def _pair(e: Emitter) -> tuple[Value, Value, bool]:
    """X and Y, and True where Y is one matrix for all of the stack X."""
    x = e.need("X")
    y = e.need("Y")
    assert x.shape is not None and y.shape is not None
    if len(x.shape) < 2 or len(y.shape) < 2:
        raise CannotLower("a product with a vector")
    is_single = len(x.shape) > 2 and len(y.shape) == 2 and not _settings(e)[0]
    # the gradient of a stack that was broadcast has to be summed, which the portable kernel does
    if not is_single and x.shape[:-2] != y.shape[:-2]:
        raise CannotLower("batches differ")
    if is_single:
        x = matrix(e, x, len(x.shape) - 1)
    return x, y, is_single


@lowering("matmul", "matmul_v2", "bmm")
def _(e: Emitter) -> None:
    tx, ty, alpha = _settings(e)
    given = e.need("X")
    x, y, is_single = _pair(e)
    left = _turned(e, x, tx)
    right = _turned(e, y, ty)
    _check_fit(left, right)
    assert left.shape is not None and right.shape is not None and given.shape is not None
    shape = (*(given.shape if is_single else left.shape)[:-1], right.shape[-1])
    out = e.out("Out", shape, x.dtype)
    _multiply_forward(e, left, right, e.reshape(out, (*left.shape[:-1], right.shape[-1])), alpha)


@lowering("matmul_grad", "matmul_v2_grad", "bmm_grad")
def _(e: Emitter) -> None:
    tx, ty, alpha = _settings(e)
    given = e.need("X")
    incoming = e.need("Out@GRAD")
    x, y, is_single = _pair(e)
    d = incoming
    if is_single:
        assert incoming.shape is not None
        d = matrix(e, incoming, len(incoming.shape) - 1)
    if e.wants("X@GRAD"):
        out = e.reshape(e.out("X@GRAD", given.shape, x.dtype), x.shape or ())
        if tx:
            _multiply(e, _turned(e, y, ty), _turned(e, d, True), out, alpha)
        else:
            _multiply(e, _turned(e, d, False), _turned(e, y, not ty), out, alpha)
    if e.wants("Y@GRAD"):
        out = e.out("Y@GRAD", y.shape, y.dtype)
        if ty:
            _multiply(e, _turned(e, d, True), _turned(e, x, tx), out, alpha)
        else:
            _multiply(e, _turned(e, x, not tx), _turned(e, d, False), out, alpha)
