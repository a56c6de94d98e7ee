"""Products and solutions of linear algebra beside the plain ones: kron, cross, addmm, inverse, cholesky;
position encodings.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.attr_limits import least, limited
from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.kept_attrs import ONEDNN
from fluidlite.base.registry import Lod, Op, Spec, same_as

# ---------------------------------------------------------------------- kron
kron = Op("kron", "X Y -> Out", lod=None, alike=("X", "Y"))


def _same_rank(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rank = max(len(x), len(y))
    return (1,) * (rank - len(x)) + x, (1,) * (rank - len(y)) + y


@kron.shape
def _(X: Spec, Y: Spec) -> Spec:
    pairs = zip(*_same_rank(X.shape, Y.shape), strict=True)
    return X.with_shape(-1 if a < 0 or b < 0 else a * b for a, b in pairs)


@kron.kernel
def _(xp: Any, X: Array, Y: Array) -> Array:
    return xp.kron(X, Y)


@kron.grad("X Y")
def _(xp: Any, X: Array, Y: Array, dOut: Array) -> tuple[Array, Array]:
    x, y = _same_rank(X.shape, Y.shape)
    # Out[i0 * y0 + j0, ...] = X[i0, ...] * Y[j0, ...]: one dimension for each i and each j
    d = dOut.reshape([n for pair in zip(x, y, strict=True) for n in pair])
    of_x = tuple(range(0, d.ndim, 2))
    of_y = tuple(range(1, d.ndim, 2))
    spread_x = X.reshape([n for dim in x for n in (dim, 1)])
    spread_y = Y.reshape([n for dim in y for n in (1, dim)])
    dx = (d * spread_y).sum(axis=of_y)
    dy = (d * spread_x).sum(axis=of_x)
    return dx.reshape(X.shape), dy.reshape(Y.shape)


# ---------------------------------------------------------------------- cross
cross = Op(
    "cross", "X Y -> Out", attrs={"dim": 9}, alike=("X", "Y")
)  # 9 stands for the first dimension of three


def _cross_axis(shape: tuple[int, ...], dim: int) -> int:
    if dim != 9:
        if not -len(shape) <= dim < len(shape) or shape[dim] not in (3, -1):
            raise ShapeError(f"op 'cross': dimension {dim} of X{list(shape)} must hold 3 elements")
        return dim % len(shape)
    found = next((axis for axis, size in enumerate(shape) if size == 3), None)
    if found is None:
        raise ShapeError(f"op 'cross': no dimension of X{list(shape)} holds 3 elements")
    return found


@cross.shape
def _(X: Spec, Y: Spec, dim: int) -> Spec:
    if len(X.shape) != len(Y.shape) or any(
        a != b and -1 not in (a, b) for a, b in zip(X.shape, Y.shape, strict=True)
    ):
        raise ShapeError(f"op 'cross': X{list(X.shape)} and Y{list(Y.shape)} must have the same shape")
    if -1 not in X.shape:
        _cross_axis(X.shape, dim)
    return Spec(X.shape, X.dtype)


@cross.kernel
def _(xp: Any, X: Array, Y: Array, dim: int) -> Array:
    return xp.cross(X, Y, axis=_cross_axis(X.shape, dim))


@cross.grad("X Y")
def _(xp: Any, X: Array, Y: Array, dOut: Array, dim: int) -> tuple[Array, Array]:
    axis = _cross_axis(X.shape, dim)
    return xp.cross(Y, dOut, axis=axis), xp.cross(dOut, X, axis=axis)


# ---------------------------------------------------------------------- addmm
addmm = Op(
    "addmm", "Input. X. Y. -> Out", attrs={"Alpha": 1.0, "Beta": 1.0}, alike=("Input", "X", "Y"), kept=ONEDNN
)


@addmm.shape
def _(Input: Spec, X: Spec, Y: Spec) -> Spec:
    if len(Input.shape) not in (1, 2) or len(X.shape) != 2 or len(Y.shape) != 2:
        raise ShapeError(
            f"op 'addmm': Input{list(Input.shape)}, X{list(X.shape)} and Y{list(Y.shape)} must be matrices"
        )
    out = (X.shape[0], Y.shape[1])
    if X.shape[1] != Y.shape[0] and -1 not in (X.shape[1], Y.shape[0]):
        raise ShapeError(
            f"op 'addmm': X has {X.shape[1]} columns but Y has {Y.shape[0]} rows (X{list(X.shape)} x "
            f"Y{list(Y.shape)})"
        )
    if any(
        a != b and a != 1 and -1 not in (a, b)
        for a, b in zip(Input.shape, out[-len(Input.shape) :], strict=True)
    ):
        raise ShapeError(f"op 'addmm': Input{list(Input.shape)} does not broadcast to {list(out)}")
    return Input.with_shape(out)


@addmm.refuses
def _(Input: Spec) -> str:
    # 2.x lays a vector over the rows
    return "" if len(Input.shape) == 2 else f"Input{list(Input.shape)} must be a matrix"


@addmm.kernel
def _(xp: Any, Input: Array, X: Array, Y: Array, Alpha: float, Beta: float) -> Array:
    # as in BLAS, a term with the factor 0 is not read, whatever infinities it may have
    product = Alpha * (X @ Y) if Alpha else xp.zeros((X.shape[0], Y.shape[1]), X.dtype)
    return Beta * Input + product if Beta else product


@addmm.grad("Input X Y")
def _(
    Input: Array, X: Array, Y: Array, dOut: Array, Alpha: float, Beta: float, wants: frozenset[str]
) -> tuple[Array | None, Array | None, Array | None]:
    dinput = None
    if "Input@GRAD" in wants:
        shape = (1,) * (2 - Input.ndim) + Input.shape
        axes = tuple(axis for axis in (0, 1) if shape[axis] != dOut.shape[axis])
        dinput = Beta * (dOut.sum(axis=axes, keepdims=True) if axes else dOut).reshape(Input.shape)
    return (
        dinput,
        Alpha * (dOut @ Y.T) if "X@GRAD" in wants else None,
        Alpha * (X.T @ dOut) if "Y@GRAD" in wants else None,
    )


# ---------------------------------------------------------------------- square matrices
def check_square(type: str, shape: tuple[int, ...]) -> None:
    if len(shape) < 2 or (shape[-1] != shape[-2] and -1 not in shape[-2:]):
        raise ShapeError(
            f"op {type!r}: the last two dimensions must be equal, but the shape is {list(shape)}"
        )


inverse = Op("inverse", "Input -> Output")


@inverse.shape
def _(Input: Spec) -> Spec:
    check_square("inverse", Input.shape)
    return Spec(Input.shape, Input.dtype)


@inverse.kernel
def _(xp: Any, Input: Array) -> Array:
    return xp.linalg.inv(Input)


@inverse.grad("Input")
def _(Output: Array, dOutput: Array) -> Array:
    turned = Output.swapaxes(-1, -2)
    return -(turned @ dOutput @ turned)


cholesky = Op("cholesky", "X -> Out", attrs={"upper": False}, lod_of_2x=None)


@cholesky.shape
def _(X: Spec) -> Spec:
    check_square("cholesky", X.shape)
    return Spec(X.shape, X.dtype)


@cholesky.kernel
def _(xp: Any, X: Array, upper: bool) -> Array:
    # the triangle that is asked for is the one that is read
    if upper:
        found = xp.linalg.cholesky(X.swapaxes(-1, -2)).swapaxes(-1, -2)
        return xp.ascontiguousarray(found)
    return xp.linalg.cholesky(X)


@cholesky.grad("X")
def _(xp: Any, Out: Array, dOut: Array, upper: bool) -> Array:
    # Iain Murray, Differentiation of the Cholesky decomposition (2016), equation 10
    factor, d = (Out.swapaxes(-1, -2), dOut.swapaxes(-1, -2)) if upper else (Out, dOut)
    inner = xp.tril(factor.swapaxes(-1, -2) @ d)
    half = inner - 0.5 * inner * xp.eye(inner.shape[-1], dtype=inner.dtype)
    inverted = xp.linalg.inv(factor)
    whole = inverted.swapaxes(-1, -2) @ half @ inverted
    return of_triangle(xp, whole, upper)


def of_triangle(xp: Any, grad: Array, upper: bool) -> Array:
    """The gradient by the triangle that a function of symmetric matrices reads, 0 beside it, made of the
    gradient by all elements, for which both of a pair count.
    """
    both = grad + grad.swapaxes(-1, -2)
    if upper:
        strict = xp.triu(both, 1)
    else:
        strict = xp.tril(both, -1)
    diagonal = xp.eye(grad.shape[-1], dtype=grad.dtype)
    return strict + grad * diagonal


# ---------------------------------------------------------------------- positions
add_position_encoding = Op(
    "add_position_encoding",
    "X. -> Out",
    attrs={"alpha": limited(1.0, least(0.0)), "beta": limited(1.0, least(0.0))},
)
add_position_encoding.shape(same_as("X"))


def _encoding(steps: Any, width: int) -> Any:
    """Sines in the first half of the width, cosines in the other (Vaswani et al. 2017, but not
    interleaved).
    """
    half = width // 2
    exponent = np.arange(half) / (half - 1) if half > 1 else np.ones(1)
    angle = np.asarray(steps)[:, None] / np.power(10000.0, exponent)
    return np.concatenate((np.sin(angle), np.cos(angle)), axis=1)


@add_position_encoding.kernel
def _(xp: Any, X: Array, X_lod: Lod, alpha: float, beta: float) -> Array:
    if X.ndim != (2 if X_lod else 3):
        raise ShapeError(
            f"op 'add_position_encoding': X has the shape {list(X.shape)}, wanted [batch, steps, width], or "
            "[rows, width] with a level of detail"
        )
    if X.shape[-1] % 2:
        raise ShapeError(f"op 'add_position_encoding': the last dimension of X{list(X.shape)} must be even")
    if X_lod:
        offsets = X_lod[-1]
        steps = np.concatenate(
            [np.arange(stop - start) for start, stop in zip(offsets, offsets[1:], strict=False)]
        )
    else:
        steps = np.arange(X.shape[1])
    encoding = xp.asarray(_encoding(steps, X.shape[-1]).astype(X.dtype))
    return alpha * X + beta * encoding


@add_position_encoding.grad("X")
def _(dOut: Array, alpha: float) -> Array:
    return alpha * dOut
