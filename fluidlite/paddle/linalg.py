"""`paddle.linalg`: products, norms, systems of equations and decompositions of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import append, append_several
from fluidlite.paddle.tensor.linalg import cholesky, inverse, matmul, norm
from fluidlite.paddle.tensor.manipulation import transpose, unsqueeze
from fluidlite.paddle.tensor.math import abs, pow
from fluidlite.paddle.tensor.reduction import max, min, sum
from fluidlite.paddle.tensor.search import where
from fluidlite.paddle.tensor.shapes import constant

__all__ = [
    "cholesky",
    "cholesky_solve",
    "cond",
    "det",
    "eigh",
    "eigvalsh",
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


# ---------------------------------------------------------------------- numbers of a matrix
def det(x: Variable, name: str | None = None) -> Variable:
    """The determinants of square matrices."""
    _need_square(x, "det")
    return append("determinant", {"Input": [x]}, dtype=x.dtype, name=name)


def slogdet(x: Variable, name: str | None = None) -> Variable:
    """The signs of the determinants of square matrices, and the logarithms of their sizes, [2, ...]."""
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
        large, small = max(values, axis=-1), min(values, axis=-1)
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
    lines = sum(abs(x), axis=-2 if abs_of(p) == 1 else -1)
    return max(lines, axis=-1) if p > 0 else min(lines, axis=-1)


def abs_of(p: float) -> float:
    """The size of a number; `abs` is the layer here."""
    return p if p > 0 else -p


# ---------------------------------------------------------------------- systems
def solve(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The solutions of x @ solution = y."""
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
        rcond = (1e-15 if x.dtype == VarType.FP64 else 1e-7) * builtin_max(x.shape[-2:])
    attrs = {"rcond": rcond, "driver": driver or "gelsy"}
    outs = {"Solution": x.dtype, "Residuals": x.dtype, "Rank": VarType.INT32, "SingularValues": x.dtype}
    solution, residuals, rank, values = append_several("lstsq", {"X": [x], "Y": [y]}, attrs, outs)
    for var in (solution, residuals, rank, values):
        var.stop_gradient = True
    return solution, residuals, rank, values


def builtin_max(dims: Sequence[int]) -> int:
    """The largest dimension; `max` is the reduction here."""
    return sorted(dims)[-1]


def pinv(x: Variable, rcond: Any = 1e-15, hermitian: bool = False, name: str | None = None) -> Variable:
    """The pseudo-inverses; singular values up to `rcond` times the largest one count as 0."""
    if hermitian:
        values, vectors = eigh(x)
        size, left, right = abs(values), vectors, vectors
    else:
        left, values, rows = svd(x)
        size, right = values, transpose(rows, [*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2])
    least = (rcond if isinstance(rcond, Variable) else constant([1], x.dtype, rcond)) * max(size, -1, True)
    endless = constant([1], x.dtype, float("inf"))
    inverted = where(size > least, 1 / values, 1 / endless)
    return matmul(right * unsqueeze(inverted, -2), left, transpose_y=True)


# ---------------------------------------------------------------------- powers and products
def matrix_power(x: Variable, n: int, name: str | None = None) -> Variable:
    """The n-th powers of square matrices; of their inverses where n is negative."""
    return append("matrix_power", {"X": [x]}, {"n": n}, dtype=x.dtype, name=name)


def multi_dot(x: Sequence[Variable], name: str | None = None) -> Variable:
    """The product of matrices in the cheapest order; the first and the last one may be vectors."""
    if len(x) < 2:
        raise ValueError(f"multi_dot needs two tensors or more, but got {len(x)}")
    return append("multi_dot", {"X": list(x)}, dtype=x[0].dtype, name=name)


# ---------------------------------------------------------------------- decompositions
def qr(x: Variable, mode: str = "reduced", name: str | None = None) -> Any:
    """Orthogonal matrices and upper triangles whose products are x; the latter alone in the mode "r"."""
    q, r = append_several("qr", {"X": [x]}, {"mode": mode}, {"Q": x.dtype, "R": x.dtype})
    return r if mode == "r" else (q, r)


def svd(
    x: Variable, full_matrices: bool = False, name: str | None = None
) -> tuple[Variable, Variable, Variable]:
    """(U, S, VH) with x = U @ diag(S) @ VH."""
    kinds = {"U": x.dtype, "VH": x.dtype, "S": x.dtype}
    u, vh, s = append_several("svd", {"X": [x]}, {"full_matrices": full_matrices}, kinds)
    return u, s, vh


def eigh(x: Variable, UPLO: str = "L", name: str | None = None) -> tuple[Variable, Variable]:
    """The eigenvalues of symmetric matrices, the smallest first, and their vectors as columns."""
    _check_uplo(x, UPLO, "eigh")
    kinds = {"Eigenvalues": x.dtype, "Eigenvectors": x.dtype}
    values, vectors = append_several("eigh", {"X": [x]}, {"UPLO": UPLO}, kinds)
    return values, vectors


def eigvalsh(x: Variable, UPLO: str = "L", name: str | None = None) -> Variable:
    """The eigenvalues of symmetric matrices, the smallest first."""
    _check_uplo(x, UPLO, "eigvalsh")
    kinds = {"Eigenvalues": x.dtype, "Eigenvectors": x.dtype}
    return append_several("eigvalsh", {"X": [x]}, {"UPLO": UPLO, "is_test": x.stop_gradient}, kinds)[0]


def _check_uplo(x: Variable, UPLO: str, function: str) -> None:
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(
            f"{function}: the input matrix must be batches of square matrices, not {list(x.shape)}"
        )
    if UPLO not in ("L", "U"):
        raise ValueError(f"{function}: UPLO must be L or U. But received UPLO is: {UPLO}")


def lu(x: Variable, pivot: bool = True, get_infos: bool = False, name: str | None = None) -> Any:
    """(L and U in one matrix, the rows that were exchanged); with `get_infos` also whether a pivot is 0."""
    kinds = {"Out": x.dtype, "Pivots": VarType.INT32, "Infos": VarType.INT32}
    out, pivots, infos = append_several("lu", {"X": [x]}, {"pivots": pivot}, kinds)
    return (out, pivots, infos) if get_infos else (out, pivots)


def lu_unpack(
    x: Variable, y: Variable, unpack_ludata: bool = True, unpack_pivots: bool = True, name: str | None = None
) -> tuple[Variable, Variable, Variable]:
    """(P, L, U) of what `lu` gives."""
    attrs = {"unpack_ludata": unpack_ludata, "unpack_pivots": unpack_pivots}
    kinds = {"Pmat": x.dtype, "L": x.dtype, "U": x.dtype}
    first, second, third = append_several("lu_unpack", {"X": [x], "Pivots": [y]}, attrs, kinds)
    return first, second, third
