"""Determinants, linear systems, powers and products of matrices, as PaddlePaddle 2.x has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import Op, Spec
from fluidlite.ops.kernels.numbers import summed_to
from fluidlite.ops.math.algebra import check_square
from fluidlite.ops.math.elementwise import broadcast


def turned(x: Array) -> Array:
    """Each matrix with rows and columns exchanged."""
    found: Array = x.swapaxes(-1, -2)
    return found


def solved_or_nan(xp: Any, x: Array, y: Array) -> Array:
    """x^-1 y, NaN where a matrix of the batch is singular: a derivative that is not there."""
    found: Array
    try:
        found = xp.linalg.solve(x, y)
    except np.linalg.LinAlgError:
        size = xp.linalg.det(x)
        is_singular = size[..., None, None] == 0
        found = xp.where(
            is_singular, np.nan, xp.linalg.solve(xp.where(is_singular, xp.eye(x.shape[-1]), x), y)
        )
    return found


# ---------------------------------------------------------------------- determinants
determinant = Op("determinant", "Input -> Out")


@determinant.shape
def _(Input: Spec) -> Spec:
    check_square("determinant", Input.shape)
    return Input.with_shape(Input.shape[:-2])


@determinant.kernel
def _(xp: Any, Input: Array) -> Array:
    found = xp.linalg.det(Input)
    return xp.asarray(found)


@determinant.grad("Input")
def _(xp: Any, Input: Array, Out: Array, dOut: Array) -> Array:
    return (dOut * Out)[..., None, None] * turned(xp.linalg.inv(Input))


slogdeterminant = Op("slogdeterminant", "Input -> Out")


@slogdeterminant.shape
def _(Input: Spec) -> Spec:
    check_square("slogdeterminant", Input.shape)
    return Input.with_shape((2, *Input.shape[:-2]))


@slogdeterminant.kernel
def _(xp: Any, Input: Array) -> Array:
    """The signs of the determinants, and the logarithms of their sizes."""
    return xp.stack([xp.asarray(part).astype(Input.dtype) for part in xp.linalg.slogdet(Input)])


@slogdeterminant.grad("Input")
def _(xp: Any, Input: Array, dOut: Array) -> Array:
    return dOut[1][..., None, None] * turned(xp.linalg.inv(Input))


# ---------------------------------------------------------------------- systems
def _solution_shape(type: str, square: Spec, right: Spec) -> tuple[int, ...]:
    """The shape of the solutions; ShapeError where the matrices do not fit."""
    check_square(type, square.shape)
    if len(right.shape) == 1:
        rows = right.shape[-1]
    else:
        rows = right.shape[-2]
    if rows != square.shape[-1] and -1 not in (rows, square.shape[-1]):
        raise ShapeError(
            f"op {type!r}: a matrix {list(square.shape)} and a right side {list(right.shape)} differ in rows"
        )
    if len(right.shape) == 1:
        return square.shape[:-1]
    lead = broadcast(type, Spec(square.shape[:-2]), Spec(right.shape[:-2]), -1)
    return (*lead, max(rows, square.shape[-1]), right.shape[-1])


solve = Op("solve", "X Y -> Out", alike=("X", "Y"))


@solve.shape
def _(X: Spec, Y: Spec) -> Spec:
    return X.with_shape(_solution_shape("solve", X, Y))


def _solved(xp: Any, x: Array, y: Array) -> Array:
    """x^-1 y, for a vector or a batch of matrices."""
    if y.ndim == 1:
        found: Array = xp.linalg.solve(x, y[..., None])[..., 0]
    else:
        found = xp.linalg.solve(x, y)
    return found


@solve.kernel
def _(xp: Any, X: Array, Y: Array) -> Array:
    return _solved(xp, X, Y)


@solve.grad("X Y")
def _(xp: Any, X: Array, Y: Array, Out: Array, dOut: Array) -> tuple[Array, Array]:
    out, d = (Out[..., None], dOut[..., None]) if Y.ndim == 1 else (Out, dOut)
    d_y = xp.linalg.solve(turned(X), d)
    d_x = summed_to(-d_y @ turned(out), X.shape)
    return d_x, summed_to(d_y[..., 0] if Y.ndim == 1 else d_y, Y.shape)


triangular_solve = Op(
    "triangular_solve",
    "X Y -> Out",
    attrs={"upper": True, "transpose": False, "unitriangular": False},
    lod="Y",
    alike=("X", "Y"),
)


@triangular_solve.shape
def _(X: Spec, Y: Spec) -> Spec:
    return X.with_shape(_solution_shape("triangular_solve", X, Y))


def _triangle(xp: Any, x: Array, upper: bool, unit: bool) -> Array:
    """The triangle of x that counts, with ones on its diagonal if `unit`."""
    if not unit:
        if upper:
            return xp.triu(x)
        return xp.tril(x)
    if upper:
        strict = xp.triu(x, 1)
    else:
        strict = xp.tril(x, -1)
    return strict + xp.eye(x.shape[-1], dtype=x.dtype)


def _substituted(xp: Any, x: Array, y: Array, upper: bool) -> Array:
    """x^-1 y for triangles x, row by row: a row reads those that are solved, and NaN elsewhere stays there; a
    0 on the diagonal makes infinities and NaN.
    """
    size = x.shape[-1]
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    out = xp.zeros((*lead, size, y.shape[-1]), y.dtype)
    order = range(size)
    if upper:
        order = order[::-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        for row in order:
            known = slice(row)
            if upper:
                known = slice(row + 1, None)
            line = x[..., row, None, known]
            solved = line @ out[..., known, :]
            rest = y[..., row, :] - solved[..., 0, :]
            out[..., row, :] = rest / x[..., row, row, None]
    return out


@triangular_solve.kernel
def _(xp: Any, X: Array, Y: Array, upper: bool, transpose: bool, unitriangular: bool) -> Array:
    x = _triangle(xp, X, upper, unitriangular)
    return _substituted(xp, turned(x) if transpose else x, Y, upper != transpose)


@triangular_solve.grad("X Y")
def _(
    xp: Any, X: Array, Y: Array, Out: Array, dOut: Array, upper: bool, transpose: bool, unitriangular: bool
) -> tuple[Array, Array]:
    x = _triangle(xp, X, upper, unitriangular)
    d_y = _substituted(xp, x if transpose else turned(x), dOut, upper == transpose)
    if transpose:
        d_x = -Out @ turned(d_y)
    else:
        d_x = -d_y @ turned(Out)
    edge = int(unitriangular)
    if upper:
        d_x = xp.triu(d_x, edge)
    else:
        d_x = xp.tril(d_x, -edge)
    return summed_to(d_x, X.shape), summed_to(d_y, Y.shape)


cholesky_solve = Op("cholesky_solve", "X Y -> Out", attrs={"upper": False}, lod="X", alike=("X", "Y"))


@cholesky_solve.shape
def _(X: Spec, Y: Spec) -> Spec:
    return X.with_shape(_solution_shape("cholesky_solve", Y, X))


def _solved_by_factor(xp: Any, triangle: Array, y: Array, upper: bool) -> Array:
    """The solutions for the matrix whose Cholesky factor is `triangle`."""
    lower = triangle
    if upper:
        lower = turned(triangle)
    inner = _substituted(xp, lower, y, False)
    return _substituted(xp, turned(lower), inner, True)


@cholesky_solve.kernel
def _(xp: Any, X: Array, Y: Array, upper: bool) -> Array:
    return _solved_by_factor(xp, _triangle(xp, Y, upper, False), X, upper)


@cholesky_solve.grad("X Y")
def _(xp: Any, X: Array, Y: Array, Out: Array, dOut: Array, upper: bool) -> tuple[Array, Array]:
    triangle = _triangle(xp, Y, upper, False)
    d_x = _solved_by_factor(xp, triangle, dOut, upper)
    both = d_x @ turned(Out)
    both = both + turned(both)
    if upper:
        d_y = -xp.triu(triangle @ both)
    else:
        d_y = -xp.tril(both @ triangle)
    return summed_to(d_x, X.shape), summed_to(d_y, Y.shape)


_OF_SINGULAR_VALUES = ("gelsd", "gelss")  # drivers
lstsq = Op(
    "lstsq",
    "X Y -> Solution Residuals Rank SingularValues",
    attrs={"rcond": 0.0, "driver": "gelsy"},
    lod=None,
    dynamic=True,
    alike=("X", "Y"),
    version=1,
)


@lstsq.shape
def _(X: Spec, Y: Spec, driver: str) -> tuple[Spec, Spec, Spec, Spec]:
    if min(len(X.shape), len(Y.shape)) < 2:
        raise ShapeError(f"op 'lstsq' takes matrices, not X{list(X.shape)} and Y{list(Y.shape)}")
    rows, columns = X.shape[-2:]
    lead = X.shape[:-2]
    is_open = min(rows, columns) < 0
    if is_open:
        residuals = (*lead, -1)
    else:
        residuals = (0,)
    if not is_open and rows > columns:
        residuals = (*lead, Y.shape[-1])
    rank = Spec((0,) if driver == "gels" else lead, VarType.INT32)
    solution = X.with_shape((*lead, columns, Y.shape[-1]))
    if driver in _OF_SINGULAR_VALUES:
        values = (*lead, min(rows, columns))
    else:
        values = (0,)
    return solution, X.with_shape(residuals), rank, X.with_shape(values)


@lstsq.kernel
def _(xp: Any, X: Array, Y: Array, rcond: float, driver: str) -> tuple[Array, Array, Array, Array]:
    """The solutions with the least squares, of the least norm; residuals of systems with more rows than
    columns; singular values by the drivers that find them, and no rank by "gels", which takes the rank to be
    full and does not ask for `rcond`.
    """
    # None: what rounding leaves of nothing
    least = None if driver == "gels" else rcond
    left = X.reshape(-1, *X.shape[-2:])
    right = Y.reshape(-1, *Y.shape[-2:])
    pairs = zip(left, right, strict=True)
    found = [xp.linalg.lstsq(x, y, rcond=least) for x, y in pairs]
    lead = X.shape[:-2]
    solution, rank, values = (xp.stack([xp.asarray(one[i]) for one in found]) for i in (0, 2, 3))
    solution = solution.reshape(*lead, *solution.shape[1:])
    residuals = ((Y - X @ solution) ** 2).sum(axis=-2)
    tall = X.shape[-2] > X.shape[-1]
    has_values = driver in _OF_SINGULAR_VALUES
    return (
        solution,
        residuals if tall else xp.zeros(0, X.dtype),
        xp.zeros(0, "int32") if driver == "gels" else rank.reshape(lead).astype("int32"),
        values.reshape(*lead, *values.shape[1:]) if has_values else xp.zeros(0, X.dtype),
    )


# ---------------------------------------------------------------------- powers and products
matrix_power = Op("matrix_power", "X -> Out", attrs={"n": 1})


@matrix_power.shape
def _(X: Spec) -> Spec:
    check_square("matrix_power", X.shape)
    return Spec(X.shape, X.dtype)


@matrix_power.kernel
def _(xp: Any, X: Array, n: int) -> Array:
    return xp.linalg.matrix_power(X, n)


@matrix_power.grad("X")
def _(xp: Any, X: Array, dOut: Array, n: int) -> Array:
    base = turned(xp.linalg.inv(X) if n < 0 else X)
    powers = [xp.linalg.matrix_power(base, i) for i in range(abs(n))]
    total = xp.zeros_like(X)
    for i in range(abs(n)):
        total = total + powers[i] @ dOut @ powers[abs(n) - 1 - i]
    if n < 0:
        return -base @ total @ base
    return total


multi_dot = Op("multi_dot", "X* -> Out", alike=("X",))


@multi_dot.shape
def _(X: list[Spec]) -> Spec:
    first = X[0].shape
    last = X[-1].shape
    if len(X) < 2 or any(len(one.shape) != 2 for one in X[1:-1]) or not 1 <= len(first) <= 2:
        raise ShapeError(f"op 'multi_dot': X must be matrices, but has {[list(one.shape) for one in X]}")
    for one, other in zip(X, X[1:], strict=False):
        if one.shape[-1] != other.shape[0] and -1 not in (one.shape[-1], other.shape[0]):
            raise ShapeError(f"op 'multi_dot': {list(one.shape)} times {list(other.shape)} does not fit")
    return X[0].with_shape((*first[:-1], *last[1:]))


@multi_dot.kernel
def _(xp: Any, X: list[Array]) -> Array:
    if xp is np:
        found = np.linalg.multi_dot(X)
        return xp.asarray(found)
    return _product(xp, X)


def _product(xp: Any, parts: list[Array]) -> Array:
    found = parts[0]
    for part in parts[1:]:
        found = found @ part
    return xp.asarray(found)


@multi_dot.grad("X")
def _(xp: Any, X: list[Array], dOut: Array) -> tuple[list[Array]]:
    first, last = X[0], X[-1]
    if first.ndim == 1:
        first = first[None, :]
    if last.ndim == 1:
        last = last[:, None]
    matrices = [first, *X[1:-1], last]
    d = dOut.reshape(matrices[0].shape[0], matrices[-1].shape[1])
    found = []
    for i, part in enumerate(matrices):
        if i:
            left = [turned(_product(xp, matrices[:i]))]
        else:
            left = []
        if i + 1 < len(matrices):
            right = [turned(_product(xp, matrices[i + 1 :]))]
        else:
            right = []
        found.append(_product(xp, [*left, d, *right]).reshape(X[i].shape).astype(part.dtype))
    return (found,)


matrix_rank = Op(
    "matrix_rank",
    "X TolTensor? -> Out",
    attrs={"tol": 0.0, "use_default_tol": True, "hermitian": False},
    lod=None,
)


@matrix_rank.shape
def _(X: Spec) -> Spec:
    return Spec(X.shape[:-2], VarType.INT32)


@matrix_rank.kernel
def _(
    xp: Any, X: Array, TolTensor: Array | None, tol: float, use_default_tol: bool, hermitian: bool
) -> Array:
    if hermitian:
        values = abs(xp.linalg.eigvalsh(X))
    else:
        values = xp.linalg.svd(X, compute_uv=False)
    least = values.max(axis=-1) * max(X.shape[-2:]) * np.finfo(X.dtype).eps
    if not use_default_tol:
        least = xp.asarray(tol if TolTensor is None else TolTensor)
    return xp.asarray((values > least[..., None]).sum(axis=-1)).astype("int32")
