"""Derivatives of products of matrices, and of inverses, solutions and determinants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.differentiation.arrays import COMPOSED, NoDerivative, Pull, plain, record, rule, view_of
from fluidlite.base.differentiation.rules import back_to


def _turned(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


@rule("matmul")
def _(out: Any, x: Any, y: Any, **_options: Any) -> tuple[Pull, Pull]:
    # a vector on the left is a matrix of one row, one on the right of one column
    rows = np.reshape(x, (1, -1)) if x.ndim == 1 else x
    columns = np.reshape(y, (-1, 1)) if y.ndim == 1 else y

    def whole(g: Any) -> Any:
        g = np.expand_dims(g, -1) if y.ndim == 1 else g
        return np.expand_dims(g, -2) if x.ndim == 1 else g

    return (
        lambda g: np.reshape(back_to(np.matmul(whole(g), _turned(columns)), rows), x.shape),
        lambda g: np.reshape(back_to(np.matmul(_turned(rows), whole(g)), columns), y.shape),
    )


def _dot(x: Any, y: Any) -> Any:
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    if y.ndim > 2:
        return _tensordot(x, y, ((x.ndim - 1,), (y.ndim - 2,)))
    return np.matmul(x, y)


def _tensordot(x: Any, y: Any, axes: Any = 2) -> Any:
    if isinstance(axes, int):
        axes = (range(x.ndim - axes, x.ndim), range(axes))
    left, right = ([a] if isinstance(a, int) else list(a) for a in axes)
    left, right = [a % x.ndim for a in left], [a % y.ndim for a in right]
    rows = [i for i in range(x.ndim) if i not in left]
    columns = [i for i in range(y.ndim) if i not in right]
    count = math.prod(x.shape[i] for i in left)
    height = math.prod(x.shape[i] for i in rows)
    width = math.prod(y.shape[i] for i in columns)
    matrix = np.transpose(x, (*rows, *left))
    other = np.transpose(y, (*right, *columns))
    found = np.matmul(matrix.reshape((height, count)), other.reshape((count, width)))
    shape = [x.shape[i] for i in rows]
    shape += [y.shape[i] for i in columns]
    return found.reshape(shape)


def _kron(x: Any, y: Any) -> Any:
    rank = max(x.ndim, y.ndim)
    a, b = ((1,) * (rank - v.ndim) + tuple(v.shape) for v in (x, y))
    left = np.reshape(x, [n for dim in a for n in (dim, 1)])
    right = np.reshape(y, [n for dim in b for n in (1, dim)])
    return np.reshape(left * right, [m * n for m, n in zip(a, b, strict=True)])


def _cross(x: Any, y: Any, axis: int = -1, **options: Any) -> Any:
    axis = options.get("axisa", axis) if "axisa" in options else axis
    left, right = np.moveaxis(x, axis, 0), np.moveaxis(y, axis, 0)
    parts = []
    for place in range(3):
        first = (place + 1) % 3
        second = (place + 2) % 3
        parts.append(left[first] * right[second] - left[second] * right[first])
    return np.stack(parts, axis % x.ndim)


COMPOSED.update(dot=_dot, tensordot=_tensordot, kron=_kron, cross=_cross)


# ---------------------------------------------------------------------- sums of products
@rule("einsum")
def _(out: Any, equation: str, *operands: Any, **_options: Any) -> tuple[Any, ...]:
    left, _, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if "." in equation or any(len(set(term)) < len(term) for term in terms):
        raise NoDerivative(f"einsum {equation!r} repeats a letter or has dots")

    def part(index: int) -> Pull:
        others = [term for i, term in enumerate(terms) if i != index]
        values = [value for i, value in enumerate(operands) if i != index]
        known = set(right).union(*others)
        kept = "".join(letter for letter in terms[index] if letter in known)

        def back(g: Any) -> Any:
            found = np.einsum(f"{','.join([right, *others])}->{kept}", g, *values)
            sizes = dict(zip(terms[index], operands[index].shape, strict=True))
            shape = [sizes[letter] if letter in known else 1 for letter in terms[index]]
            return np.broadcast_to(np.reshape(found, shape), operands[index].shape)

        return back

    return (None, *(part(index) for index in range(len(operands))))


def _einsum(*args: Any, **options: Any) -> Any:
    """`numpy.einsum`, whose operands may have labels that are numbers, and a label twice."""
    if isinstance(args[0], str):
        left, _, right = args[0].replace(" ", "").partition("->")
        terms, operands = left.split(","), list(args[1:])
    else:
        operands = list(args[:-1:2])
        terms = ["".join(chr(97 + number) for number in numbers) for numbers in args[1:-1:2]]
        right = "".join(chr(97 + number) for number in args[-1])
    if len(operands) == 1 and set(right) == set(terms[0]):
        equation = f"{terms[0]}->{right}"
        return view_of(operands[0], lambda array: np.einsum(equation, array))
    for index, term in enumerate(terms):
        once = "".join(dict.fromkeys(term))
        if once != term:
            sizes = [np.arange(operands[index].shape[term.index(letter)]) for letter in once]
            places = dict(zip(once, np.ix_(*sizes), strict=True))
            operands[index] = operands[index][tuple(places[letter] for letter in term)]
            terms[index] = once
    return record(np.einsum, (f"{','.join(terms)}->{right}", *operands), options)


COMPOSED["einsum"] = _einsum


# ---------------------------------------------------------------------- linear algebra
@rule("inv")
def _(out: Any, x: Any) -> tuple[Pull]:
    turned = _turned(out)

    def back(g: Any) -> Any:
        found = np.matmul(turned, g)
        return -np.matmul(found, turned)

    return (back,)


def _solve(a: Any, b: Any) -> Any:
    """The solution of a x = b, by the inverse: the derivatives are those of a product then."""
    return np.matmul(np.linalg.inv(a), b)


@rule("det")
def _(out: Any, x: Any) -> tuple[Pull]:
    shape = (*np.shape(plain(out)), 1, 1)

    def back(g: Any) -> Any:
        factor = np.reshape(g * out, shape)
        return factor * _turned(np.linalg.inv(x))

    return (back,)


@rule("cholesky")
def _(out: Any, x: Any) -> tuple[Pull]:
    def back(g: Any) -> Any:
        # Murray, "Differentiation of the Cholesky decomposition" (2016): L^-T phi(L^T G) L^-1, made symmetric
        inverse = np.linalg.inv(out)
        inner = np.tril(np.matmul(_turned(out), g))
        inner = inner - 0.5 * inner * np.eye(x.shape[-1], dtype=x.dtype)
        full = np.matmul(np.matmul(_turned(inverse), inner), inverse)
        return 0.5 * (full + _turned(full))

    return (back,)


def _matrix_power(x: Any, n: int) -> Any:
    if n < 0:
        x, n = np.linalg.inv(x), -n
    total = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
    for _ in range(n):
        total = np.matmul(total, x)
    return total


def _multi_dot(arrays: Sequence[Any], **_options: Any) -> Any:
    total = arrays[0]
    for array in arrays[1:]:
        total = np.matmul(total, array)
    return total


COMPOSED.update(solve=_solve, matrix_power=_matrix_power, multi_dot=_multi_dot)
