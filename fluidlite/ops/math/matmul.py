"""Matrix products: mul on flattened operands, matmul and its like on stacks of matrices, inner products."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from fluidlite.base.attr_limits import least, limited
from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.kept_attrs import ONEDNN, QUANTIZER
from fluidlite.base.open_sizes import fits
from fluidlite.base.registry import OF_2X_ATTR, GradContext, KernelContext, Op, Spec, get, later
from fluidlite.ops.gradients import emits_once_more
from fluidlite.ops.kernels.products import shared_product
from fluidlite.ops.math.elementwise import common_size


def _flat(shape: tuple[int, ...], cols: int) -> tuple[int, int]:
    """`shape` as a matrix: dimensions before `cols` are rows, the others columns; -1 where a factor is
    unknown.
    """

    def size(dims: tuple[int, ...]) -> int:
        return -1 if any(dim < 0 for dim in dims) else math.prod(dims)

    return size(shape[:cols]), size(shape[cols:])


def _matrix(array: Array, cols: int) -> Array:
    """An array as a matrix: dimensions before `cols` are rows, the others columns."""
    # most are matrices; steps of loops are so small that asking for their shapes takes as long as a product
    if array.ndim == 2 and cols == 1:
        return array
    return array.reshape(_flat(array.shape, cols))


_KEPT_BY_MUL = {**ONEDNN, "force_fp32_output": False, "scale_x": 1.0, "scale_y": [1.0], "scale_out": 1.0}
mul = Op(
    "mul",
    "X. Y. -> Out",
    attrs={"x_num_col_dims": limited(1, least(1)), "y_num_col_dims": limited(1, least(1))},
    alike=("X", "Y"),
    fresh=True,
    captured=True,
    kept=_KEPT_BY_MUL,
    amp="white",
)


@mul.shape
def _(X: Spec, Y: Spec, x_num_col_dims: int, y_num_col_dims: int) -> Spec:
    for name, spec, count in (("X", X, x_num_col_dims), ("Y", Y, y_num_col_dims)):
        if len(spec.shape) <= count:
            raise ShapeError(f"op 'mul': {name}{list(spec.shape)} must have more than {count} dimensions")
    columns = _flat(X.shape, x_num_col_dims)[1]
    rows = _flat(Y.shape, y_num_col_dims)[0]
    if columns != rows and -1 not in (columns, rows):
        raise ShapeError(
            f"op 'mul': X has {columns} columns but Y has {rows} rows (X{list(X.shape)} x Y{list(Y.shape)})"
        )
    return X.with_shape(X.shape[:x_num_col_dims] + Y.shape[y_num_col_dims:])


@mul.flops
def _(X: Spec, Y: Spec, y_num_col_dims: int) -> int:
    return 2 * math.prod(X.shape) * math.prod(Y.shape[y_num_col_dims:])


@mul.kernel
def _(xp: Any, ctx: KernelContext, X: Array, Y: Array, x_num_col_dims: int, y_num_col_dims: int) -> Array:
    x = _matrix(X, x_num_col_dims)
    y = _matrix(Y, y_num_col_dims)
    out = shared_product(ctx, xp, x, y)
    if X.ndim == Y.ndim == 2:
        return out
    return out.reshape(X.shape[:x_num_col_dims] + Y.shape[y_num_col_dims:])


@mul.grad("X Y")
def mul_grad(
    xp: Any,
    ctx: KernelContext,
    X: Array,
    Y: Array,
    dOut: Array,
    x_num_col_dims: int,
    y_num_col_dims: int,
    wants: frozenset[str],
) -> tuple[Array | None, Array | None]:
    x = _matrix(X, x_num_col_dims)
    y = _matrix(Y, y_num_col_dims)
    d = dOut if dOut.ndim == 2 else dOut.reshape(x.shape[0], y.shape[1])
    dx = shared_product(ctx, xp, d, y.T) if "X@GRAD" in wants else None
    dy = shared_product(ctx, xp, x.T, d) if "Y@GRAD" in wants else None
    return (
        dx if dx is None or x is X else dx.reshape(X.shape),
        dy if dy is None or y is Y else dy.reshape(Y.shape),
    )


emits_once_more(
    mul_grad,
    reads={"X": "X", "Y": "Y", "DOut": "Out@GRAD"},
    incoming={"DDX": "X@GRAD", "DDY": "Y@GRAD"},
    writes={"DX": "X", "DY": "Y", "DDOut": "Out@GRAD"},
    needs={"DX": "DDY", "DY": "DDX"},
)
mul_grad_grad = Op(
    "mul_grad_grad", "X Y DOut DDX? DDY? -> DX? DY? DDOut?", attrs=mul.attr_defs, lod=None
).derive()


@mul_grad_grad.shape
def _(X: Spec, Y: Spec, DOut: Spec) -> tuple[Spec, Spec, Spec]:
    return X, Y, DOut


@mul_grad_grad.kernel
def _(
    xp: Any,
    X: Array,
    Y: Array,
    DOut: Array,
    DDX: Array | None,
    DDY: Array | None,
    x_num_col_dims: int,
    y_num_col_dims: int,
) -> tuple[Array, Array, Array]:
    x = X.reshape(_flat(X.shape, x_num_col_dims))
    y = Y.reshape(_flat(Y.shape, y_num_col_dims))
    d = DOut.reshape(x.shape[0], y.shape[1])
    ddx = None if DDX is None else DDX.reshape(x.shape)
    ddy = None if DDY is None else DDY.reshape(y.shape)
    ddout = [a @ b for a, b in ((ddx, y), (x, ddy)) if a is not None and b is not None]
    return (
        xp.zeros_like(X) if ddy is None else (d @ ddy.T).reshape(X.shape),
        xp.zeros_like(Y) if ddx is None else (ddx.T @ d).reshape(Y.shape),
        sum(ddout[1:], ddout[0]).reshape(DOut.shape) if ddout else xp.zeros_like(DOut),
    )


# ------------------------------------------------------------------ stacks of matrices
Shape: TypeAlias = "tuple[int, ...]"


def _as_matrices(shape: Shape, transpose: bool, left: bool) -> Shape:
    """The shape of an operand: a vector is a row on the left, a column on the right; then the last two
    dimensions swap.
    """
    if len(shape) == 1:
        shape = (1, *shape) if left else (*shape, 1)
    return (*shape[:-2], shape[-1], shape[-2]) if transpose else shape


def _matrices(array: Array, transpose: bool, left: bool) -> Array:
    if array.ndim == 1:
        array = array[None] if left else array[:, None]
    return array.swapaxes(-1, -2) if transpose else array


def _broadcast(a: Shape, b: Shape) -> Shape:
    """The common shape of two stacks, -1 where it is not known."""
    width = max(len(a), len(b))
    pairs = zip((1,) * (width - len(a)) + a, (1,) * (width - len(b)) + b, strict=True)
    return tuple(common_size(m, n) for m, n in pairs)


def _operands(X: Array, Y: Array, transpose_x: bool, transpose_y: bool) -> tuple[Array, Array]:
    """Both operands as stacks of matrices; where the stacks hold equally many, Y's takes the shape of X's."""
    x = _matrices(X, transpose_x, True)
    y = _matrices(Y, transpose_y, False)
    stack, other = x.shape[:-2], y.shape[:-2]
    if stack and other and stack != other and math.prod(stack) == math.prod(other):
        y = y.reshape(*stack, *y.shape[-2:])
    return x, y


def _product(xp: Any, x: Array, y: Array) -> Array:
    """x @ y: one large product rather than many small ones where y is a single matrix."""
    if y.ndim == 2 and x.ndim > 2 and x.flags.c_contiguous:
        rows = x.reshape(-1, x.shape[-1])
        return (rows @ y).reshape(*x.shape[:-1], y.shape[-1])
    return xp.matmul(x, y)


def _reduce_to(array: Array, shape: Shape) -> Array:
    """Add up the stack dimensions along which an operand of `shape` was repeated."""
    if array.shape == shape:
        return array
    extra = array.ndim - len(shape)
    axes = (
        *range(extra),
        *(i + extra for i, dim in enumerate(shape[:-2]) if dim == 1 != array.shape[i + extra]),
    )
    return array.sum(axis=axes, dtype=array.dtype).reshape(shape)


def _right_gradient(xp: Any, x: Array, d: Array, shape: Shape) -> Array:
    """The gradient x' d of the right operand, which has `shape`."""
    if len(shape) == 2 and d.ndim > 2 and x.shape[:-1] == d.shape[:-1]:
        return x.reshape(-1, x.shape[-1]).T @ d.reshape(-1, d.shape[-1])
    return _reduce_to(_product(xp, x.swapaxes(-1, -2), d), shape)


def _gradients(
    xp: Any,
    operands: tuple[Array, Array],
    d: Array,
    transpose_x: bool,
    transpose_y: bool,
    wants: frozenset[str],
) -> tuple[Array | None, Array | None]:
    """Gradients of x and y, in the orientation in which they came, for the gradient `d` of their product."""
    x, y = operands
    batch = _broadcast(x.shape[:-2], y.shape[:-2])
    d = d.reshape(*batch, x.shape[-2], y.shape[-1])
    dx = _reduce_to(_product(xp, d, y.swapaxes(-1, -2)), x.shape) if "X@GRAD" in wants else None
    dy = _right_gradient(xp, x, d, y.shape) if "Y@GRAD" in wants else None
    return (
        dx.swapaxes(-1, -2) if dx is not None and transpose_x else dx,
        dy.swapaxes(-1, -2) if dy is not None and transpose_y else dy,
    )


def _reshaped(array: Array | None, shape: Shape) -> Array | None:
    return None if array is None else array.reshape(shape)


def _kept(x_rank: int, y_rank: int, rows: int, columns: int) -> Shape:
    """The last dimensions of a product: what stood for the missing dimension of a vector goes away again."""
    return (
        *(() if x_rank == 1 and rows == 1 else (rows,)),
        *(() if y_rank == 1 and columns == 1 else (columns,)),
    )


def _check_inner(type: str, X: Spec, Y: Spec, columns: int, rows: int) -> None:
    if columns != rows and -1 not in (columns, rows):
        raise ShapeError(
            f"op {type!r}: the left operand has {columns} columns but the right one {rows} rows "
            f"(X{list(X.shape)} x Y{list(Y.shape)})"
        )


_KEPT_BY_MATMUL = {
    **ONEDNN,
    **QUANTIZER,
    "force_fp32_output": False,
    "Scale_out": 1.0,
    "Scale_x": 1.0,
    "Scale_y": 1.0,
    "fused_reshape_Out": [],
    "fused_transpose_Out": [],
    "head_number": 1,
}
matmul = Op(
    "matmul",
    "X. Y. -> Out",
    attrs={"transpose_X": False, "transpose_Y": False, "alpha": 1.0, "head_number": 1},
    alike=("X", "Y"),
    fresh=True,
    kept=_KEPT_BY_MATMUL,
    version=1,
    amp="white",
)


@matmul.shape
def _(X: Spec, Y: Spec, transpose_X: bool, transpose_Y: bool, head_number: int) -> Spec:
    x = _as_matrices(X.shape, transpose_X, True)
    y = _as_matrices(Y.shape, transpose_Y, False)
    if head_number > 1:
        return X.with_shape((*x[:-1], _width_of_heads(x, y, head_number)))
    _check_inner("matmul", X, Y, x[-1], y[-2])
    stack, other = x[:-2], y[:-2]
    if stack and other and -1 not in (*stack, *other) and math.prod(stack) != math.prod(other):
        raise ShapeError(
            f"op 'matmul': X stacks {list(stack)} matrices but Y {list(other)} (X{list(X.shape)} x "
            f"Y{list(Y.shape)})"
        )
    kept = _kept(len(X.shape), len(Y.shape), x[-2], y[-1])
    return X.with_shape((*(stack or other), *kept) or (1,))


def _width_of_heads(x: Shape, y: Shape, heads: int) -> int:
    """The columns of a product by heads: each head's stand side by side."""
    by_head = x[-1] // heads
    is_one_head = y[-2] != x[-1]
    if x[-1] % heads or not fits(y[-2], x[-1], by_head) or (is_one_head and y[-1] % heads):
        raise ShapeError(
            f"op 'matmul': {heads} heads must divide the {x[-1]} columns of X, and Y have the rows of all "
            f"heads or of one (X{list(x)} x Y{list(y)})"
        )
    if min(y[-2], x[-1]) < 0:
        return -1
    return y[-1] if y[-2] != x[-1] else y[-1] * heads


def _heads(x: Array, y: Array, heads: int) -> tuple[Array, Array]:
    """Both operands cut into heads, along a new dimension before the rows: X by columns; Y by rows, or by
    columns where it has the rows of one head only.
    """
    cut = x.reshape(*x.shape[:-1], heads, -1).swapaxes(-2, -3)
    if y.shape[-2] == x.shape[-1]:
        return cut, y.reshape(*y.shape[:-2], heads, -1, y.shape[-1])
    return cut, y.reshape(*y.shape[:-1], heads, -1).swapaxes(-2, -3)


def _by_heads(
    xp: Any, operands: tuple[Array, Array], d: Array, transpose_x: bool, transpose_y: bool, heads: int
) -> tuple[Array, Array]:
    """Gradients of x and y, in the orientation in which they came, for that of their product by heads."""
    x, y = operands
    cut_x, cut_y = _heads(x, y, heads)
    d = d.reshape(*d.shape[:-1], heads, -1).swapaxes(-2, -3)
    products = xp.matmul(d, cut_y.swapaxes(-1, -2))
    dx = _reduce_to(products, cut_x.shape).swapaxes(-2, -3).reshape(x.shape)
    dy = _reduce_to(xp.matmul(cut_x.swapaxes(-1, -2), d), cut_y.shape)
    by_rows = y.shape[-2] == x.shape[-1]
    dy = (dy if by_rows else dy.swapaxes(-2, -3)).reshape(y.shape)
    return (dx.swapaxes(-1, -2) if transpose_x else dx, dy.swapaxes(-1, -2) if transpose_y else dy)


def _flops_of_stacks(x: tuple[int, ...], y: tuple[int, ...], transposed: bool) -> int:
    """2 x elements of X x columns of Y, once for each matrix of the larger stack."""
    if len(x) < 2 or len(y) < 2:
        return 2 * max(math.prod(x), math.prod(y))
    stack = max(math.prod(x[:-2]), math.prod(y[:-2]))
    return 2 * stack * x[-2] * x[-1] * (y[-2] if transposed else y[-1])


@matmul.flops
def _(X: Spec, Y: Spec, transpose_Y: bool) -> int:
    return _flops_of_stacks(X.shape, Y.shape, transpose_Y)


def _times(xp: Any, product: Array, alpha: float) -> Array:
    """alpha * product, in its place; zeros for 0, as in BLAS, whatever infinities there are."""
    if not alpha:
        return xp.zeros_like(product)  # type: ignore[no-any-return]
    if alpha != 1.0:
        product *= product.dtype.type(alpha)
    return product


@matmul.kernel
def _(
    xp: Any, X: Array, Y: Array, transpose_X: bool, transpose_Y: bool, alpha: float, head_number: int
) -> Array:
    operands = _operands(X, Y, transpose_X, transpose_Y)
    if head_number > 1:
        parts = xp.matmul(*_heads(*operands, head_number)).swapaxes(-2, -3)
        return _times(xp, parts.reshape(*parts.shape[:-2], -1), alpha)
    out = _times(xp, _product(xp, *operands), alpha)
    kept = _kept(X.ndim, Y.ndim, *out.shape[-2:])
    return out.reshape((*out.shape[:-2], *kept) or (1,))


@matmul.grad("X Y")
def _(
    xp: Any,
    X: Array,
    Y: Array,
    dOut: Array,
    transpose_X: bool,
    transpose_Y: bool,
    alpha: float,
    head_number: int,
    wants: frozenset[str],
) -> tuple[Array | None, Array | None]:
    if not alpha:  # a product that is not read has no gradient, whatever it is multiplied by
        return xp.zeros_like(X), xp.zeros_like(Y)
    d = dOut if alpha == 1.0 else dOut * dOut.dtype.type(alpha)
    operands = _operands(X, Y, transpose_X, transpose_Y)
    dx: Array | None
    dy: Array | None
    if head_number > 1:
        dx, dy = _by_heads(xp, operands, d, transpose_X, transpose_Y, head_number)
    else:
        dx, dy = _gradients(xp, operands, d, transpose_X, transpose_Y, wants)
    return _reshaped(dx, X.shape), _reshaped(dy, Y.shape)


matmul_v2 = Op(
    "matmul_v2",
    "X Y -> Out",
    attrs={"trans_x": False, "trans_y": False},
    lod=None,
    alike=("X", "Y"),
    amp_fp16="white",
)


def _v2_operands(X: Array, Y: Array, trans_x: bool, trans_y: bool) -> tuple[Array, Array]:
    return _matrices(X, trans_x and X.ndim > 1, True), _matrices(Y, trans_y and Y.ndim > 1, False)


@matmul_v2.shape
def _(X: Spec, Y: Spec, trans_x: bool, trans_y: bool) -> Spec:
    x, y = (
        _as_matrices(X.shape, trans_x and len(X.shape) > 1, True),
        _as_matrices(Y.shape, trans_y and len(Y.shape) > 1, False),
    )
    _check_inner("matmul_v2", X, Y, x[-1], y[-2])
    stack = _broadcast(x[:-2], y[:-2])
    kept = _kept(len(X.shape), len(Y.shape), x[-2], y[-1])
    return X.with_shape((*stack, *kept))


@matmul_v2.flops
def _(X: Spec, Y: Spec, trans_y: bool) -> int:
    return _flops_of_stacks(X.shape, Y.shape, trans_y)


@matmul_v2.kernel
def _(xp: Any, X: Array, Y: Array, trans_x: bool, trans_y: bool) -> Array:
    out = _product(xp, *_v2_operands(X, Y, trans_x, trans_y))
    kept = _kept(X.ndim, Y.ndim, *out.shape[-2:])
    return out.reshape((*out.shape[:-2], *kept))


@matmul_v2.grad("X Y")
def _(
    xp: Any, X: Array, Y: Array, dOut: Array, trans_x: bool, trans_y: bool, wants: frozenset[str]
) -> tuple[Array | None, Array | None]:
    dx, dy = _gradients(
        xp, _v2_operands(X, Y, trans_x, trans_y), dOut, trans_x and X.ndim > 1, trans_y and Y.ndim > 1, wants
    )
    return _reshaped(dx, X.shape), _reshaped(dy, Y.shape)


@get("matmul_v2_grad").grad_rule("X Y Out@GRAD")
def _(context: GradContext) -> None:
    """The product is linear in each operand, so its own ops, with what comes in for one of them, say it."""
    x, y, d = context.input("X"), context.input("Y"), context.input("Out@GRAD")
    ddx = context.out_grad("X@GRAD")
    ddy = context.out_grad("Y@GRAD")
    if ddx:
        context.emit("matmul_v2", {"X": ddx, "Y": y}, {"Out": context.in_grad("Out@GRAD")})
        slots = {"X": ddx, "Y": y, "Out@GRAD": d}
        context.emit("matmul_v2_grad", slots, {"Y@GRAD": context.in_grad("Y")})
    if ddy:
        context.emit("matmul_v2", {"X": x, "Y": ddy}, {"Out": context.in_grad("Out@GRAD")})
        slots = {"X": x, "Y": ddy, "Out@GRAD": d}
        context.emit("matmul_v2_grad", slots, {"X@GRAD": context.in_grad("X")})


bmm = Op("bmm", "X. Y. -> Out", alike=("X", "Y"))


@bmm.shape
def _(X: Spec, Y: Spec) -> Spec:
    if len(X.shape) != 3 or len(Y.shape) != 3:
        raise ShapeError(
            f"op 'bmm': X and Y must have 3 dimensions, but have shapes {list(X.shape)} and {list(Y.shape)}"
        )
    _check_inner("bmm", X, Y, X.shape[2], Y.shape[1])
    if X.shape[0] != Y.shape[0] and -1 not in (X.shape[0], Y.shape[0]):
        raise ShapeError(f"op 'bmm': X stacks {X.shape[0]} matrices but Y {Y.shape[0]}")
    return X.with_shape((max(X.shape[0], Y.shape[0]), X.shape[1], Y.shape[2]))


@bmm.kernel
def _(xp: Any, X: Array, Y: Array) -> Array:
    return xp.matmul(X, Y)


@bmm.grad("X Y")
def _(xp: Any, X: Array, Y: Array, dOut: Array, wants: frozenset[str]) -> tuple[Array | None, Array | None]:
    return (
        xp.matmul(dOut, Y.swapaxes(1, 2)) if "X@GRAD" in wants else None,
        xp.matmul(X.swapaxes(1, 2), dOut) if "Y@GRAD" in wants else None,
    )


mv = Op("mv", "X Vec -> Out", alike=("X", "Vec"))


@mv.shape
def _(X: Spec, Vec: Spec) -> Spec:
    if len(X.shape) != 2 or len(Vec.shape) != 1:
        raise ShapeError(
            f"op 'mv' takes a matrix and a vector, not X{list(X.shape)} and Vec{list(Vec.shape)}"
        )
    if X.shape[1] != Vec.shape[0] and -1 not in (X.shape[1], Vec.shape[0]):
        raise ShapeError(f"op 'mv': X has {X.shape[1]} columns but Vec has {Vec.shape[0]} elements")
    return X.with_shape(X.shape[:1])


@mv.kernel
def _(X: Array, Vec: Array) -> Array:
    return X @ Vec


@mv.grad("X Vec")
def _(X: Array, Vec: Array, dOut: Array) -> tuple[Array, Array]:
    return dOut[:, None] * Vec, X.T @ dOut


dot = Op("dot", "X Y -> Out", attrs={OF_2X_ATTR: later(False)}, lod=None, alike=("X", "Y"))


@dot.shape
def _(X: Spec, Y: Spec, of_2x: bool) -> Spec:
    if len(X.shape) not in (1, 2) or len(X.shape) != len(Y.shape):
        raise ShapeError(
            f"op 'dot': X and Y must be two vectors or two matrices, not {list(X.shape)} and {list(Y.shape)}"
        )
    if any(a != b for a, b in zip(X.shape, Y.shape, strict=True) if min(a, b) >= 0):
        raise ShapeError(f"op 'dot': X{list(X.shape)} and Y{list(Y.shape)} must have the same shape")
    return X.with_shape(X.shape[:-1] if of_2x else (*X.shape[:-1], 1))


@dot.kernel
def _(X: Array, Y: Array, of_2x: bool) -> Array:
    return (X * Y).sum(axis=-1, keepdims=not of_2x, dtype=X.dtype)


@dot.grad("X Y")
def _(X: Array, Y: Array, dOut: Array) -> tuple[Array, Array]:
    d = dOut.reshape(*X.shape[:-1], 1)
    return d * Y, d * X


bilinear = Op("bilinear_tensor_product", "X. Y. Weight. Bias.? -> Out", alike=("X", "Y", "Weight", "Bias"))


@bilinear.shape
def _(X: Spec, Y: Spec, Weight: Spec) -> Spec:
    if len(X.shape) != 2 or len(Y.shape) != 2 or len(Weight.shape) != 3:
        raise ShapeError(
            "op 'bilinear_tensor_product': X and Y must be matrices and Weight must have 3 dimensions, not "
            f"{list(X.shape)}, {list(Y.shape)} and {list(Weight.shape)}"
        )
    if X.shape[0] != Y.shape[0] and min(X.shape[0], Y.shape[0]) >= 0:
        raise ShapeError(
            f"op 'bilinear_tensor_product': X{list(X.shape)} and Y{list(Y.shape)} must have as many rows"
        )
    _check_inner("bilinear_tensor_product", X, Weight, X.shape[1], Weight.shape[1])
    _check_inner("bilinear_tensor_product", Y, Weight, Y.shape[1], Weight.shape[2])
    return X.with_shape((X.shape[0], Weight.shape[0]))


@bilinear.kernel
def _(xp: Any, X: Array, Y: Array, Weight: Array, Bias: Array | None) -> Array:
    out = xp.einsum("knj,nj->nk", xp.matmul(X, Weight), Y)
    return out if Bias is None else out + Bias.reshape(1, -1)


@bilinear.grad_rule("X Y Weight Bias")
def _(context: GradContext) -> None:
    inputs = {slot: context.input(slot) for slot in ("X", "Y", "Weight")} | {
        "Out@GRAD": context.out_grad("Out")
    }
    outputs = {slot + "@GRAD": context.in_grad(slot) for slot in ("X", "Y", "Weight", "Bias")}
    context.emit("bilinear_tensor_product_grad", inputs, outputs)


def _bilinear_gradients(X: Spec, Y: Spec, Weight: Spec) -> tuple[Spec, Spec, Spec, Spec]:
    return X, Y, Weight, X.with_shape((1, Weight.shape[0]))


@bilinear.grad("X Y Weight Bias", shape=_bilinear_gradients)
def _(
    xp: Any, X: Array, Y: Array, Weight: Array, dOut: Array, wants: frozenset[str]
) -> tuple[Array | None, ...]:
    scaled = dOut.T[:, :, None]  # (size, N, 1)
    return (
        xp.matmul(scaled * Y, Weight.swapaxes(1, 2)).sum(axis=0) if "X@GRAD" in wants else None,
        xp.matmul(scaled * X, Weight).sum(axis=0) if "Y@GRAD" in wants else None,
        xp.matmul((scaled * X).swapaxes(1, 2), Y) if "Weight@GRAD" in wants else None,
        dOut.sum(axis=0, keepdims=True) if "Bias@GRAD" in wants else None,
    )
