"""Decompositions of matrices that came with PaddlePaddle 2.x: QR, SVD, LU, eigenvalues."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.dtypes import REAL_PARTS, Array, VarType
from fluidlite.base.errors import KernelError, ShapeError
from fluidlite.base.registry import Lod, Op, Spec, WithLod
from fluidlite.ops.math.algebra import check_square, of_triangle
from fluidlite.ops.math.systems import solved_or_nan, turned
from fluidlite.values.tensor import host

Maybe: TypeAlias = "Array | None"


def _need_matrices(type: str, X: Spec) -> tuple[int, int]:
    if len(X.shape) < 2:
        raise ShapeError(f"op {type!r}: X must hold matrices, but has the shape {list(X.shape)}")
    return X.shape[-2], X.shape[-1]


def _in_sequences(spec: Spec, X: Spec) -> Spec:
    """The spec with the level of detail of X."""
    return spec._replace(lod_level=X.lod_level)


def _or_zeros(xp: Any, d: Maybe, like: Array) -> Array:
    if d is None:
        return xp.zeros_like(like)
    return d


# ---------------------------------------------------------------------- QR
qr = Op("qr", "X -> Q R", attrs={"mode": "reduced"})


@qr.shape
def _(X: Spec, mode: str) -> tuple[Spec, Spec]:
    rows, columns = _need_matrices("qr", X)
    if mode not in ("reduced", "complete", "r"):
        raise ShapeError(f"op 'qr': mode is 'reduced', 'complete' or 'r', not {mode!r}")
    lead = X.shape[:-2]
    size = rows if mode == "complete" else min(rows, columns)
    if mode == "r":
        q: tuple[int, ...] = (0,)
    else:
        q = (*lead, rows, size)
    return X.with_shape(q), _in_sequences(X.with_shape((*lead, size, columns)), X)


@qr.kernel
def _(xp: Any, X: Array, X_lod: Lod, mode: str) -> tuple[Any, Any]:
    if mode == "r":
        return WithLod(xp.zeros(0, X.dtype), ()), WithLod(xp.linalg.qr(X, mode="r"), X_lod)
    q, r = xp.linalg.qr(X, mode=mode)
    return q, WithLod(r, X_lod)


def _qr_back(xp: Any, q: Array, r: Array, dq: Array, dr: Array) -> Array:
    """For matrices of no more columns than rows (Walter and Lehmann, 2010)."""
    inner = r @ turned(dr) - turned(dq) @ q
    lower = xp.tril(inner, -1)
    whole = xp.tril(inner) + turned(lower)
    return turned(solved_or_nan(xp, r, turned(dq + q @ whole)))


@qr.grad("X")
def _(xp: Any, X: Array, Q: Array, R: Array, dQ: Maybe, dR: Maybe, mode: str) -> Array:
    rows, columns = X.shape[-2:]
    if mode == "r" or (mode == "complete" and rows > columns):
        raise KernelError(f"op 'qr': there is no gradient in mode {mode!r} of X{list(X.shape)}")
    dq = _or_zeros(xp, dQ, Q)
    dr = _or_zeros(xp, dR, R)
    if rows >= columns:
        return _qr_back(xp, Q, R, dq, dr)
    first = dr[..., :rows]
    rest = dr[..., rows:]
    dq = dq + X[..., rows:] @ turned(rest)
    left = _qr_back(xp, Q, R[..., :rows], dq, first)
    return xp.concatenate([left, Q @ rest], axis=-1)


# ---------------------------------------------------------------------- singular values
svd = Op("svd", "X -> U S VH", attrs={"full_matrices": False}, lod=None)


@svd.shape
def _(X: Spec, full_matrices: bool) -> dict[str, Spec]:
    rows, columns = _need_matrices("svd", X)
    lead = X.shape[:-2]
    size = min(rows, columns)
    left, right = (rows, columns) if full_matrices else (size, size)
    shapes = {"U": (*lead, rows, left), "S": (*lead, size), "VH": (*lead, right, columns)}
    return {slot: _in_sequences(X.with_shape(shape), X) for slot, shape in shapes.items()}


@svd.kernel
def _(xp: Any, X: Array, X_lod: Lod, full_matrices: bool) -> dict[str, Any]:
    u, s, vh = xp.linalg.svd(X, full_matrices=full_matrices)
    # as in 2.6.2, which declares a level of detail for all of them
    return {"U": u, "S": WithLod(s, X_lod), "VH": vh}


def _inverse_gaps(xp: Any, values: Array) -> Array:
    """1 / (values[j] - values[i]), 0 on the diagonal."""
    gaps = values[..., None, :] - values[..., :, None]
    eye = xp.eye(values.shape[-1], dtype=values.dtype)
    return (1 - eye) / (gaps + eye)


@svd.grad("X")
def _(
    xp: Any, X: Array, U: Array, S: Array, VH: Array, dU: Maybe, dS: Maybe, dVH: Maybe, full_matrices: bool
) -> Array:
    """As Townsend has it in "Differentiating the singular value decomposition" (2016)."""
    count = S.shape[-1]
    u = U[..., :count]
    vh = VH[..., :count, :]
    v = turned(vh)
    if dU is None:
        du = xp.zeros_like(u)
    else:
        du = dU[..., :count]
    if dVH is None:
        dv = xp.zeros_like(v)
    else:
        dv = turned(dVH[..., :count, :])
    s = S[..., None, :]
    gaps = _inverse_gaps(xp, S * S)
    middle = _diagonal(xp, _or_zeros(xp, dS, S))
    turn = turned(u) @ du
    middle = middle + gaps * (turn - turned(turn)) * s
    turn = turned(v) @ dv
    middle = middle + turned(s) * gaps * (turn - turned(turn))
    found = u @ middle @ vh
    found = found + (du / s - u @ (turned(u) @ (du / s))) @ vh
    return found + u @ turned(dv / s - v @ (turned(v) @ (dv / s)))


def _diagonal(xp: Any, values: Array) -> Array:
    return values[..., None] * xp.eye(values.shape[-1], dtype=values.dtype)


# ---------------------------------------------------------------------- eigenvalues
_EIGEN = "X -> Eigenvalues Eigenvectors"


def _eigen_shapes(type: str, X: Spec) -> tuple[Spec, Spec]:
    check_square(type, X.shape)
    return X.with_shape(X.shape[:-1]), Spec(X.shape, X.dtype)


eigh = Op("eigh", _EIGEN, attrs={"UPLO": "L"}, lod=None)
eigvalsh = Op("eigvalsh", _EIGEN, attrs={"UPLO": "L", "is_test": False}, lod=None, idle=("is_test",))


@eigh.shape
def _(X: Spec) -> tuple[Spec, Spec]:
    return _eigen_shapes("eigh", X)


@eigh.kernel
def _(xp: Any, X: Array, UPLO: str) -> tuple[Array, Array]:
    return tuple(xp.linalg.eigh(X, UPLO))


@eigh.grad("X", shape=lambda Eigenvectors: Eigenvectors)
def _(
    xp: Any, Eigenvalues: Array, Eigenvectors: Array, dEigenvalues: Maybe, dEigenvectors: Maybe, UPLO: str
) -> Array:
    v = Eigenvectors
    inner = _diagonal(xp, _or_zeros(xp, dEigenvalues, Eigenvalues))
    if dEigenvectors is not None:
        inner = inner + _inverse_gaps(xp, Eigenvalues) * (turned(v) @ dEigenvectors)
    return of_triangle(xp, v @ inner @ turned(v), UPLO == "U")


@eigvalsh.shape
def _(X: Spec) -> tuple[Spec, Spec]:
    return _eigen_shapes("eigvalsh", X)


@eigvalsh.kernel
def _(xp: Any, X: Array, UPLO: str) -> tuple[Array, Array]:
    return tuple(xp.linalg.eigh(X, UPLO))


@eigvalsh.grad("X", shape=lambda Eigenvectors: Eigenvectors)
def _(xp: Any, Eigenvectors: Array, dEigenvalues: Array, UPLO: str) -> Array:
    whole = Eigenvectors @ _diagonal(xp, dEigenvalues) @ turned(Eigenvectors)
    return of_triangle(xp, whole, UPLO == "U")


_COMPLEX = {real: complex for complex, real in REAL_PARTS.items()}
eig = Op("eig", _EIGEN, lod=None)
eigvals = Op("eigvals", "X -> Out", lod=None)


@eig.shape
def _(X: Spec) -> tuple[Spec, Spec]:
    check_square("eig", X.shape)
    kind = _COMPLEX.get(X.dtype, X.dtype)
    return Spec(X.shape[:-1], kind), Spec(X.shape, kind)


@eig.kernel
def _(xp: Any, X: Array) -> tuple[Array, Array]:
    # on the host: CuPy has symmetric matrices alone
    return tuple(xp.asarray(part.astype(_complex_of(X))) for part in np.linalg.eig(host(X)))


def _complex_of(x: Array) -> np.dtype[Any]:
    """The dtype of a matrix's eigenvalues."""
    return np.result_type(x.dtype, "complex64")


@eig.grad("X", shape=lambda X: X, of_complex=True)
def _(
    xp: Any, X: Array, Eigenvalues: Array, Eigenvectors: Array, dEigenvalues: Maybe, dEigenvectors: Maybe
) -> Array:
    """For vectors of length 1 whose largest element is real, as LAPACK gives them ("On the computation of
    complex-valued gradients", Boeddeker and others, 2017).
    """
    v = Eigenvectors
    adjoint = xp.conj(turned(v))
    d_values = _or_zeros(xp, dEigenvalues, Eigenvalues)
    inner = _diagonal(xp, d_values)
    if dEigenvectors is not None:
        # a turn of the whole vector keeps its largest element real
        products = xp.conj(dEigenvectors) * v
        turns = xp.imag(products.sum(axis=-2, keepdims=True))
        largest = xp.argmax(abs(v), axis=-2)[..., None, :]
        rows = xp.arange(v.shape[-1])
        is_largest = rows[:, None] == largest
        turned_back = 1j * turns / xp.take_along_axis(v, largest, axis=-2)
        fixed = dEigenvectors + xp.where(is_largest, turned_back, 0)
        along = adjoint @ fixed
        lengths = xp.real(along) * xp.eye(v.shape[-1])
        gaps = xp.conj(_inverse_gaps(xp, Eigenvalues))
        across = along - adjoint @ v @ lengths
        inner = inner + gaps * across
    found = xp.linalg.solve(adjoint, inner @ adjoint)
    return found if X.dtype.kind == "c" else xp.real(found).astype(X.dtype)


@eigvals.shape
def _(X: Spec) -> Spec:
    check_square("eigvals", X.shape)
    return Spec(X.shape[:-1], _COMPLEX.get(X.dtype, X.dtype))


@eigvals.kernel
def _(xp: Any, X: Array) -> Array:
    found = np.linalg.eigvals(host(X)).astype(_complex_of(X))
    return xp.asarray(found)


# ---------------------------------------------------------------------- LU
lu = Op("lu", "X -> Out Pivots Infos", attrs={"pivots": True}, lod=None, only={"pivots": True})


@lu.shape
def _(X: Spec) -> tuple[Spec, Spec, Spec]:
    rows, columns = _need_matrices("lu", X)
    lead = X.shape[:-2]
    pivots = Spec((*lead, min(rows, columns)), VarType.INT32)
    return Spec(X.shape, X.dtype), pivots, Spec(lead or (1,), VarType.INT32)


@lu.kernel
def _(xp: Any, X: Array) -> tuple[Array, Array, Array]:
    """L below the diagonal and U from it on, the rows that were exchanged, counted from 1, and 0 or the place
    of a pivot that is 0.
    """
    # start-up time: few programs need it
    from scipy.linalg import lapack

    if X.dtype == np.float64:
        factor = lapack.dgetrf
    else:
        factor = lapack.sgetrf
    # on the host: CuPy factors one matrix at a time, and does not say where a pivot is 0
    found = [factor(matrix) for matrix in host(X).reshape(-1, *X.shape[-2:])]
    lead = X.shape[:-2]
    out = np.stack([one[0] for one in found]).reshape(X.shape)
    pivots = np.stack([one[1] + 1 for one in found]).astype("int32").reshape(*lead, -1)
    infos = np.array([one[2] for one in found], "int32").reshape(lead or (1,))
    return xp.asarray(out), xp.asarray(pivots), xp.asarray(infos)


def _permutation(xp: Any, pivots: Array, rows: int) -> Array:
    """The matrices P with X = P L U."""
    flat = host(pivots).reshape(-1, pivots.shape[-1])
    found = np.zeros((len(flat), rows, rows))
    for number, line in enumerate(flat.tolist()):
        order = list(range(rows))
        for place, other in enumerate(line):
            order[place], order[other - 1] = order[other - 1], order[place]
        found[number, order, range(rows)] = 1
    return xp.asarray(found.reshape(*pivots.shape[:-1], rows, rows))


def _halves(xp: Any, x: Array) -> tuple[Array, Array]:
    """L, with ones on its diagonal, and U."""
    size = min(x.shape[-2:])
    lower = xp.tril(x[..., :size], -1) + xp.eye(x.shape[-2], size, dtype=x.dtype)
    return lower, xp.triu(x[..., :size, :])


@lu.grad("X")
def _(xp: Any, X: Array, Out: Array, Pivots: Array, dOut: Array) -> Array:
    """With X = P L U, and the rows of L or the columns of U beyond the square in front as L2 and U2: the
    gradient of L2 reaches X's rows there through U, that of U2 its columns through L, and what is left of
    both goes through the square, as for square matrices.
    """
    rows, columns = Out.shape[-2:]
    size = min(rows, columns)
    lower, upper = _halves(xp, Out)
    square = lower[..., :size, :]
    right = upper[..., :size]
    d = dOut[..., :size, :size]
    found = xp.zeros_like(dOut)
    if rows > size:
        below = _solved_right(xp, dOut[..., size:, :], right)
        found[..., size:, :] = below
        d = d - xp.triu(turned(lower[..., size:, :]) @ below)
    if columns > size:
        beside = solved_or_nan(xp, turned(square), dOut[..., size:])
        found[..., size:] = beside
        d = d - xp.tril(beside @ turned(upper[..., size:]), -1)
    below = xp.tril(turned(square) @ xp.tril(d, -1), -1)
    inner = below + xp.triu(xp.triu(d) @ turned(right))
    found[..., :size, :size] = _solved_right(xp, solved_or_nan(xp, turned(square), inner), right)
    return (_permutation(xp, Pivots, rows) @ found).astype(Out.dtype)


def _solved_right(xp: Any, x: Array, upper: Array) -> Array:
    """x times the transposed inverse of `upper`."""
    return turned(solved_or_nan(xp, upper, turned(x)))


lu_unpack = Op(
    "lu_unpack",
    "X Pivots -> Pmat L U",
    attrs={"unpack_ludata": True, "unpack_pivots": True},
    lod=None,
    idle=("unpack_ludata", "unpack_pivots"),
)


@lu_unpack.shape
def _(X: Spec, Pivots: Spec) -> tuple[Spec, Spec, Spec]:
    rows, columns = _need_matrices("lu_unpack", X)
    if len(Pivots.shape) != len(X.shape) - 1:
        raise ShapeError(f"op 'lu_unpack': Pivots{list(Pivots.shape)} do not fit X{list(X.shape)}")
    lead = X.shape[:-2]
    size = min(rows, columns)
    shapes = ((rows, rows), (rows, size), (size, columns))
    first, second, third = (X.with_shape((*lead, *shape)) for shape in shapes)
    return first, second, third


@lu_unpack.kernel
def _(xp: Any, X: Array, Pivots: Array) -> tuple[Array, Array, Array]:
    return (_permutation(xp, Pivots, X.shape[-2]).astype(X.dtype), *_halves(xp, X))


@lu_unpack.grad("X")
def _(xp: Any, X: Array, dL: Maybe, dU: Maybe) -> Array:
    size = min(X.shape[-2:])
    found = xp.zeros_like(X)
    if dL is not None:
        found[..., :size] += xp.tril(dL, -1)
    if dU is not None:
        found[..., :size, :] += xp.triu(dU)
    return found
