"""`paddle.linalg`: products, norms, systems of equations and decompositions of matrices."""

from __future__ import annotations

import builtins  # `abs`, `max`, `min` and `sum` are functions of tensors here
from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

from fluidlite.base.dtypes import VarType
from fluidlite.ir.guarded import guarded
from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import append, append_several, need_float
from fluidlite.paddle.indexing import setitem
from fluidlite.paddle.tensor.arranging import diagonal
from fluidlite.paddle.tensor.creation import eye, zeros
from fluidlite.paddle.tensor.linalg import cholesky, inverse, matmul, mm, norm, t
from fluidlite.paddle.tensor.manipulation import reshape, squeeze, transpose, unsqueeze
from fluidlite.paddle.tensor.math import abs, clip, conj, maximum, pow, sqrt
from fluidlite.paddle.tensor.random import gaussian
from fluidlite.paddle.tensor.reduction import max, mean, min, sum
from fluidlite.paddle.tensor.search import where
from fluidlite.paddle.tensor.shapes import constant, size_of

__all__ = [
    "cholesky",
    "cholesky_solve",
    "cond",
    "corrcoef",
    "cov",
    "det",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "lstsq",
    "lu",
    "lu_unpack",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "triangular_solve",
]

inv = inverse
_COMPLEX = {VarType.FP32: VarType.COMPLEX64, VarType.FP64: VarType.COMPLEX128}
_COMPLEX |= {kind: kind for kind in _COMPLEX.values()}


# ---------------------------------------------------------------------- numbers of a matrix
def det(x: Variable, name: str | None = None) -> Variable:
    """The determinants of square matrices."""
    need_float(x, "det")
    _need_square(x, "det")
    return append("determinant", {"Input": [x]}, dtype=x.dtype, name=name)


def slogdet(x: Variable, name: str | None = None) -> Variable:
    """The signs of the determinants of square matrices, and the logarithms of their sizes, [2, ...]."""
    need_float(x, "slogdet")
    _need_square(x, "slogdet")
    return append("slogdeterminant", {"Input": [x]}, dtype=x.dtype, name=name)


def _need_square(x: Variable, function: str) -> None:
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise AssertionError(f"{function}: expected square matrices, but x is {list(x.shape)}")


def matrix_rank(x: Variable, tol: Any = None, hermitian: bool = False, name: str | None = None) -> Variable:
    """The numbers of singular values above `tol`."""
    inputs = {"X": [x]}
    attrs: dict[str, Any] = {"hermitian": hermitian, "use_default_tol": tol is None, "tol": 0.0}
    if isinstance(tol, Variable):
        inputs["TolTensor"] = [tol]
    elif tol is not None:
        attrs["tol"] = tol
    return append("matrix_rank", inputs, attrs, dtype=VarType.INT32, name=name)


def cond(x: Variable, p: Any = None, name: str | None = None) -> Variable:
    """The condition numbers: the norm of x times that of its inverse; without p, and for 2 and -2, from the
    singular values.
    """
    if p in (None, 2, -2):
        values = svd(x)[1]
        large = max(values, axis=-1)
        small = min(values, axis=-1)
        return (small / large) if p == -2 else (large / small)
    _need_square(x, "cond")
    if p not in ("fro", "nuc", 1, -1, float("inf"), -float("inf")):
        raise ValueError(
            f"unsupported {p} for p, only supporting 'fro', 'nuc', 1, -1, 2, -2, inf, -inf or none"
        )
    inverted = inverse(x)
    found: Variable = _norm_of(x, p) * _norm_of(inverted, p)
    return found


def _norm_of(x: Variable, p: Any) -> Variable:
    if p == "fro":
        return pow(sum(sum(pow(x, 2.0), axis=-1), axis=-1), 0.5)
    if p == "nuc":
        return sum(svd(x)[1], axis=-1)
    lines = sum(abs(x), axis=-2 if builtins.abs(p) == 1 else -1)
    return max(lines, axis=-1) if p > 0 else min(lines, axis=-1)


# ---------------------------------------------------------------------- observations
def cov(
    x: Variable,
    rowvar: bool = True,
    ddof: bool = True,
    fweights: Variable | None = None,
    aweights: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """The covariances of variables, rows of x (columns without `rowvar`), over its observations.

    ddof: of n observations, n - 1 divides, else n. fweights: how often each observation counts, integers;
    aweights: how much. What has no observations to divide by is infinite or NaN.
    """
    if len(x.shape) not in (1, 2):
        raise ValueError(f"cov: x must have one or two dimensions, but is {list(x.shape)}")
    if x.dtype not in _COMPLEX:
        raise TypeError(f"cov: {x.name!r} has the dtype {x.dtype.name}, wanted float or complex")
    observed = x
    if len(x.shape) == 1:
        observed = reshape(x, [1, -1])
    if not rowvar and observed.shape[0] != 1:
        observed = t(observed)
    weights, count, divisor = _weights(observed, ddof, fweights, aweights)
    weighted = observed
    if weights is not None:
        weighted = observed * weights
    mean = sum(weighted, axis=1) / count
    centered = observed - unsqueeze(mean, 1)
    products = mm(centered, conj(t(weighted)))
    return squeeze(products / divisor)


def _weights(
    x: Variable, ddof: bool, fweights: Variable | None, aweights: Variable | None
) -> tuple[Variable | None, Variable, Variable]:
    """The weights of the observations, if any, their sum, and what their squares are divided by."""
    _check_weights(x, fweights, aweights)
    given = [one.astype(x.dtype) for one in (fweights, aweights) if one is not None]
    if not given:
        weights = None
        count = size_of(x, 1)
        if isinstance(count, Integral):
            total = constant([], x.dtype, count)
        else:
            total = count.astype(x.dtype)
    else:
        weights = given[0]
        if len(given) > 1:
            weights = weights * given[1]
        total = sum(weights)
    lost: Any = float(ddof)
    if weights is not None and aweights is not None:
        lost = sum(weights * given[-1]) / total * lost
    return weights, total, maximum(total - lost, constant([], x.dtype, 0.0))


def _check_weights(x: Variable, fweights: Variable | None, aweights: Variable | None) -> None:
    for weights, name in ((fweights, "fweights"), (aweights, "aweights")):
        if weights is None:
            continue
        if len(weights.shape) != 1:
            raise ValueError(f"cov: {name} must have one dimension, but is {list(weights.shape)}")
        if weights.shape[0] != x.shape[1] and -1 not in (weights.shape[0], x.shape[1]):
            raise ValueError(
                f"cov: {name}{list(weights.shape)} must hold one number for each of {x.shape[1]} observations"
            )


def corrcoef(x: Variable, rowvar: bool = True, name: str | None = None) -> Variable:
    """The correlations of variables, rows of x (columns without `rowvar`): covariances over the product of
    both standard deviations.
    """
    if len(x.shape) not in (1, 2):
        raise ValueError(f"corrcoef: x must have one or two dimensions, but is {list(x.shape)}")
    found = cov(x, rowvar)
    if len(found.shape) == 0:
        return found / found
    variances = diagonal(found)
    deviations = sqrt(variances)  # no gradient flows through `diag`
    found = found / unsqueeze(deviations, 1)
    return clip(found / unsqueeze(deviations, 0), -1, 1)


# ---------------------------------------------------------------------- systems
def solve(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The solutions of x @ solution = y."""
    need_float(x, "solve")
    return append("solve", {"X": [x], "Y": [y]}, dtype=x.dtype, name=name)


def triangular_solve(
    x: Variable,
    y: Variable,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    name: str | None = None,
) -> Variable:
    """The solutions of x @ solution = y, of which one triangle counts."""
    attrs = {"upper": upper, "transpose": transpose, "unitriangular": unitriangular}
    return append("triangular_solve", {"X": [x], "Y": [y]}, attrs, dtype=x.dtype, name=name)


def cholesky_solve(x: Variable, y: Variable, upper: bool = False, name: str | None = None) -> Variable:
    """The solutions of A @ solution = x, where y is the Cholesky factor of A."""
    return append("cholesky_solve", {"X": [x], "Y": [y]}, {"upper": upper}, dtype=x.dtype, name=name)


def lstsq(
    x: Variable, y: Variable, rcond: float | None = None, driver: str | None = None, name: str | None = None
) -> tuple[Variable, Variable, Variable, Variable]:
    """(solution, residuals, rank, singular values) of the least squares of x @ solution - y."""
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise ValueError(
            f"Only support valid driver is 'gels', 'gelsd', 'gelss', 'gelsy' for CPU, not {driver}"
        )
    if rcond is None:
        rcond = (1e-15 if x.dtype == VarType.FP64 else 1e-7) * builtins.max(x.shape[-2:])
    attrs = {"rcond": rcond, "driver": driver or "gelsy"}
    outs = {"Solution": x.dtype, "Residuals": x.dtype, "Rank": VarType.INT32, "SingularValues": x.dtype}
    solution, residuals, rank, values = append_several("lstsq", {"X": [x], "Y": [y]}, attrs, outs)
    for var in (solution, residuals, rank, values):
        var.stop_gradient = True
    return solution, residuals, rank, values


def pinv(x: Variable, rcond: Any = 1e-15, hermitian: bool = False, name: str | None = None) -> Variable:
    """The pseudo-inverses; singular values up to `rcond` times the largest one count as 0."""
    if hermitian:
        values, vectors = eigh(x)
        size, left, right = abs(values), vectors, vectors
    else:
        left, values, rows = svd(x)
        size = values
        right = transpose(rows, [*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2])
    least = (rcond if isinstance(rcond, Variable) else constant([1], x.dtype, rcond)) * max(size, -1, True)
    endless = constant([1], x.dtype, float("inf"))
    inverted = where(size > least, 1 / values, 1 / endless)
    return matmul(right * unsqueeze(inverted, -2), left, transpose_y=True)


# ---------------------------------------------------------------------- powers and products
def matrix_power(x: Variable, n: int, name: str | None = None) -> Variable:
    """The n-th powers of square matrices; of their inverses where n is negative."""
    need_float(x, "matrix_power")
    return append("matrix_power", {"X": [x]}, {"n": n}, dtype=x.dtype, name=name)


def multi_dot(x: Sequence[Variable], name: str | None = None) -> Variable:
    """The product of matrices in the cheapest order; the first and the last one may be vectors."""
    if len(x) < 2:
        raise ValueError(f"multi_dot needs two tensors or more, but got {len(x)}")
    return append("multi_dot", {"X": list(x)}, dtype=x[0].dtype, name=name)


# ---------------------------------------------------------------------- decompositions
def qr(x: Variable, mode: str = "reduced", name: str | None = None) -> Any:
    """Orthogonal matrices and upper triangles whose products are x; the latter alone in the mode "r"."""
    need_float(x, "qr")
    q, r = append_several("qr", {"X": [x]}, {"mode": mode}, {"Q": x.dtype, "R": x.dtype})
    return r if mode == "r" else (q, r)


def svd(
    x: Variable, full_matrices: bool = False, name: str | None = None
) -> tuple[Variable, Variable, Variable]:
    """(U, S, VH) with x = U @ diag(S) @ VH."""
    need_float(x, "svd")
    kinds = {"U": x.dtype, "VH": x.dtype, "S": x.dtype}
    u, vh, s = append_several("svd", {"X": [x]}, {"full_matrices": full_matrices}, kinds)
    return u, s, vh


def pca_lowrank(
    x: Variable, q: int | None = None, center: bool = True, niter: int = 2, name: str | None = None
) -> tuple[Variable, Variable, Variable]:
    """(U, S, V) with x = U @ diag(S) @ V^T, as far as q singular values go: by default 6, or all of fewer.
    With `center` the mean of the rows is taken off before.

    The space of the largest ones is sought from random vectors by `niter` iterations (Halko et al., 2011).
    """
    need_float(x, "pca_lowrank")
    if len(x.shape) < 2 or builtins.min(x.shape[-2:]) < 0:
        raise ValueError(f"pca_lowrank: x must be matrices of known sizes, but has the shape {[*x.shape]}")
    most = builtins.min(x.shape[-2:])
    count = builtins.min(6, most) if q is None else q
    if not 0 <= count <= most:
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={most}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if center:
        x = x - mean(x, axis=-2, keepdim=True)
    tall = x.shape[-2] >= x.shape[-1]
    matrix, turned = (x, _turned(x)) if tall else (_turned(x), x)
    basis = qr(matmul(matrix, gaussian([matrix.shape[-1], count], dtype=x.dtype)))[0]
    for _ in range(niter):
        basis = qr(matmul(matrix, qr(matmul(turned, basis))[0]))[0]
    left, values, right = svd(matmul(_turned(basis), matrix))
    left, right = matmul(basis, left), _turned(right)
    return (left, values, right) if tall else (right, values, left)


def _turned(x: Variable) -> Variable:
    """Matrices with rows and columns exchanged."""
    axes = list(range(len(x.shape)))
    return transpose(x, [*axes[:-2], axes[-1], axes[-2]])


def eigh(x: Variable, UPLO: str = "L", name: str | None = None) -> tuple[Variable, Variable]:
    """The eigenvalues of symmetric matrices, the smallest first, and their vectors as columns."""
    need_float(x, "eigh")
    _check_uplo(x, UPLO, "eigh")
    kinds = {"Eigenvalues": x.dtype, "Eigenvectors": x.dtype}
    values, vectors = append_several("eigh", {"X": [x]}, {"UPLO": UPLO}, kinds)
    return values, vectors


def eigvalsh(x: Variable, UPLO: str = "L", name: str | None = None) -> Variable:
    """The eigenvalues of symmetric matrices, the smallest first."""
    need_float(x, "eigvalsh")
    _check_uplo(x, UPLO, "eigvalsh")
    kinds = {"Eigenvalues": x.dtype, "Eigenvectors": x.dtype}
    return append_several("eigvalsh", {"X": [x]}, {"UPLO": UPLO, "is_test": x.stop_gradient}, kinds)[0]


def eig(x: Variable, name: str | None = None) -> tuple[Variable, Variable]:
    """The eigenvalues of square matrices, as complex numbers, and their vectors as columns."""
    kind = _need_numbers(x, "eig")
    kinds = {"Eigenvalues": kind, "Eigenvectors": kind}
    values, vectors = append_several("eig", {"X": [x]}, {}, kinds)
    return values, vectors


def eigvals(x: Variable, name: str | None = None) -> Variable:
    """The eigenvalues of square matrices, as complex numbers; no gradient flows through them, unlike those
    of `eig`.
    """
    kind = _need_numbers(x, "eigvals")
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"eigvals: x must be square matrices, not {list(x.shape)}")
    return append("eigvals", {"X": [x]}, dtype=kind, name=name)


def _need_numbers(x: Variable, function: str) -> VarType:
    """The complex dtype that goes with that of x; TypeError for integers."""
    if x.dtype not in _COMPLEX:
        raise TypeError(f"{function}: {x.name!r} has the dtype {x.dtype.name}, wanted float or complex")
    return _COMPLEX[x.dtype]


def _check_uplo(x: Variable, UPLO: str, function: str) -> None:
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(
            f"{function}: the input matrix must be batches of square matrices, not {list(x.shape)}"
        )
    if UPLO not in ("L", "U"):
        raise ValueError(f"{function}: UPLO must be L or U. But received UPLO is: {UPLO}")


def householder_product(x: Variable, tau: Variable, name: str | None = None) -> Variable:
    """The first columns of the products of reflections I - tau[i] w w^T, in which w is what column i of x has
    below its diagonal, with a 1 in front: Q of a QR decomposition as LAPACK keeps it.
    """
    rows, columns = _check_reflections(x, tau)
    if len(x.shape) == 2:
        return _reflected(x, tau, rows, columns)
    batch = list(x.shape[:-2])
    matrices = reshape(x, [-1, rows, columns])
    factors = reshape(tau, [-1, tau.shape[-1]])
    out = zeros([matrices.shape[0], rows, columns], x.dtype)
    for at in range(matrices.shape[0]):
        out = setitem(out, at, _reflected(matrices[at], factors[at], rows, columns))
    return reshape(out, [*batch, rows, columns])


def _check_reflections(x: Variable, tau: Variable) -> tuple[int, int]:
    """The rows and columns of x; AssertionError where tau does not fit."""
    shapes = f"x{list(x.shape)}, tau{list(tau.shape)}"
    if x.dtype != tau.dtype:
        raise AssertionError(
            f"householder_product: x and tau differ in dtype: {x.dtype.name}, {tau.dtype.name}"
        )
    if len(x.shape) < 2 or len(x.shape) != len(tau.shape) + 1:
        raise AssertionError(f"householder_product: x must have one dimension more than tau: {shapes}")
    rows, columns = x.shape[-2:]
    if builtins.min((*x.shape, *tau.shape)) < 0:
        raise AssertionError(f"householder_product: all sizes must be known: {shapes}")
    if rows < columns or columns < tau.shape[-1]:
        raise AssertionError(
            f"householder_product: x must have as many rows as columns, and as many columns as there are "
            f"factors, or more: {shapes}"
        )
    return rows, columns


def _reflected(x: Variable, tau: Variable, rows: int, columns: int) -> Variable:
    """The product of one matrix."""
    q = eye(rows).astype(x.dtype)
    for at in range(builtins.min((tau.shape[-1], columns))):
        column = reshape(setitem(x[at:, at], 0, 1), [-1, 1])
        rest = q[:, at:]
        row = transpose(column, [1, 0])
        turned = matmul(q[:, at:], column)
        turned = matmul(turned, row) * tau[at]
        q = setitem(q, (builtins.slice(None), builtins.slice(at, None)), rest - turned)
    return q[:, :columns]


def lu(x: Variable, pivot: bool = True, get_infos: bool = False, name: str | None = None) -> Any:
    """(L and U in one matrix, the rows that were exchanged); with `get_infos` also whether a pivot is 0."""
    need_float(x, "lu")
    if not pivot:
        # 2.6.2 exchanges rows all the same
        raise ValueError("lu: pivot must be True: only the factorisation with pivoting is supported")
    kinds = {"Out": x.dtype, "Pivots": VarType.INT32, "Infos": VarType.INT32}
    out, pivots, infos = append_several("lu", {"X": [x]}, {"pivots": pivot}, kinds)
    return (out, pivots, infos) if get_infos else (out, pivots)


def lu_unpack(
    x: Variable, y: Variable, unpack_ludata: bool = True, unpack_pivots: bool = True, name: str | None = None
) -> tuple[Variable, Variable, Variable]:
    """(P, L, U) of what `lu` gives."""
    need_float(x, "lu_unpack")
    attrs = {"unpack_ludata": unpack_ludata, "unpack_pivots": unpack_pivots}
    kinds = {"Pmat": x.dtype, "L": x.dtype, "U": x.dtype}
    first, second, third = append_several("lu_unpack", {"X": [x], "Pivots": [y]}, attrs, kinds)
    return first, second, third


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
