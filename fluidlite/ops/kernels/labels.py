"""Products of arrays whose dimensions have labels, as equations like "bij,bjk->bik" write them: parsing, the
product as one of batches of matrices, and its gradients.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ArgumentError, ShapeError

__all__ = ["Equation", "Labels", "contract", "gradient", "parse", "segments", "sizes_of"]

Labels = tuple[str, ...]
"""A label for each dimension: a letter, or "." and the place from the right in what `...` stands for."""


class Equation(NamedTuple):
    """The labels of each operand, and those of the result."""

    operands: tuple[Labels, ...]
    out: Labels


def segments(equation: str) -> tuple[list[str], str]:
    """The text of each operand, and that of the result, without spaces: where the equation names none, `...`
    and the letters that stand in it once, in their order. ArgumentError for a text that is not an equation.
    """
    given, arrow, out = equation.replace(" ", "").partition("->")
    letters = given.replace("...", "").replace(",", "")
    for text in (*given.split(","), out):
        rest = text.replace("...", "", 1)
        if rest and not (rest.isascii() and rest.isalpha()):
            raise ArgumentError(
                f"einsum {equation!r}: {text!r} must consist of letters and at most one `...`"
            )
    if not arrow:
        once = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
        out = ("..." if "..." in given else "") + "".join(once)
    elif ("..." in given) != ("..." in out):
        raise ArgumentError(f"einsum {equation!r}: `...` must be in the result if it is in operands")
    own = out.replace("...", "")
    if len(set(own)) < len(own) or not set(own) <= set(letters):
        raise ArgumentError(f"einsum {equation!r}: each letter of the result should be one of the operands'")
    return given.split(","), out


def parse(equation: str, ranks: Sequence[int]) -> Equation:
    """The labels for operands of these ranks; ArgumentError where the equation is not for them."""
    texts, out = segments(equation)
    if len(texts) != len(ranks):
        raise ArgumentError(f"einsum {equation!r} is for {len(texts)} operands, but {len(ranks)} are given")
    found = tuple(_labels(equation, text, rank) for text, rank in zip(texts, ranks, strict=True))
    hidden = max((sum(label[0] == "." for label in labels) for labels in found), default=0)
    return Equation(found, _labels(equation, out, hidden + len(out.replace("...", ""))))


def _labels(equation: str, text: str, rank: int) -> Labels:
    before, dots, after = text.partition("...")
    hidden = rank - len(before) - len(after)
    if hidden < 0 or (hidden and not dots):
        raise ArgumentError(f"einsum {equation!r}: {text!r} is not for an operand of {rank} dimensions")
    return (*before, *(f".{place}" for place in range(hidden, 0, -1)), *after)


def sizes_of(equation: Equation, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """The size of each label, -1 where it is not known; ShapeError where two are not the same. Of what `...`
    stands for, dimensions of size 1 are repeated.
    """
    found: dict[str, int] = {}
    for labels, shape in zip(equation.operands, shapes, strict=True):
        for label, size in zip(labels, shape, strict=True):
            known = found.get(label, size)
            repeats = label[0] == "." and 1 in (known, size)
            if known != size and -1 not in (known, size) and not repeats:
                name = "..." if label[0] == "." else label
                raise ShapeError(
                    f"einsum: dimension {name!r} has the size {known} in one operand and {size} in another"
                )
            # an unknown size beside a known one has to be that; beside one that is repeated it may be any
            found[label] = -1 if repeats and -1 in (known, size) else max(known, size)
    return found


def _view(xp: Any, array: Array, labels: Labels, wanted: Labels) -> Array:
    """Diagonals of labels that stand twice, sums over those that are not wanted, and the wanted order."""
    number = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    return xp.einsum(array, [number[label] for label in labels], [number[label] for label in wanted])


def _without_repeated(array: Array, labels: Labels) -> tuple[Array, Labels]:
    """The array without those dimensions of `...` that have size 1: they go with any size."""
    shape: tuple[int, ...] = ()
    kept: Labels = ()
    for label, size in zip(labels, array.shape, strict=True):
        if label[0] != "." or size != 1:
            shape += (size,)
            kept += (label,)
    return array.reshape(shape), kept


def _product(
    xp: Any, left: tuple[Array, Labels], right: tuple[Array, Labels], kept: Collection[str]
) -> tuple[Array, Labels]:
    """The product of two arrays, summed over the labels that are not kept: one of batches of matrices."""
    a, of_a = left
    b, of_b = right
    batch: Labels = ()
    rows: Labels = ()
    summed: Labels = ()
    for label in dict.fromkeys(of_a):
        if label in of_b and label in kept:
            batch += (label,)
        elif label in of_b:
            summed += (label,)
        elif label in kept:
            rows += (label,)
    columns: Labels = ()
    for label in dict.fromkeys(of_b):
        if label in kept and label not in of_a:
            columns += (label,)
    a = _view(xp, a, of_a, batch + rows + summed)
    b = _view(xp, b, of_b, batch + summed + columns)
    outer = len(batch)
    inner = outer + len(rows)
    of_columns = b.shape[outer + len(summed) :]
    depth = math.prod(a.shape[inner:])
    height = math.prod(a.shape[outer:inner])
    width = math.prod(of_columns)
    matrices = a.reshape(*a.shape[:outer], height, depth)
    others = b.reshape(*b.shape[:outer], depth, width)
    found = xp.matmul(matrices, others)
    return found.reshape(a.shape[:inner] + of_columns), batch + rows + columns


def contract(xp: Any, operands: Sequence[Array], labels: Sequence[Labels], out: Labels) -> Array:
    """The product of all, one after the other, with the dimensions `out`; those that no operand has get the
    size 1.
    """
    parts = [_without_repeated(*pair) for pair in zip(operands, labels, strict=True)]
    found = parts[0]
    for place, other in enumerate(parts[1:], 2):
        kept = set(out)
        for _, its in parts[place:]:
            kept.update(its)
        found = _product(xp, found, other, kept)
    array, have = found
    array = _view(xp, array, have, tuple(label for label in out if label in have))
    sizes = iter(array.shape)
    return array.reshape([next(sizes) if label in have else 1 for label in out])


def gradient(xp: Any, equation: Equation, operands: Sequence[Array], result: Array, number: int) -> Array:
    """The gradient of an operand, from that of the result."""
    mine = operands[number]
    labels = equation.operands[number]
    own = tuple(dict.fromkeys(labels))
    values = [result]
    of_values = [equation.out]
    for place, operand in enumerate(operands):
        if place != number:
            values.append(operand)
            of_values.append(equation.operands[place])
    sizes = dict(zip(labels, mine.shape, strict=True))
    asked: Labels = ()
    for label in own:
        # a dimension that was repeated gets the sum over its copies, as one that nobody asks for
        if label[0] != "." or sizes[label] != 1:
            asked += (label,)
    found = contract(xp, values, of_values, asked)
    # what the operand alone had was summed there: its elements share one gradient
    shape = [sizes[label] for label in asked]
    found = xp.broadcast_to(found, shape)
    if own == labels:
        return found.reshape(mine.shape)
    whole = xp.zeros(mine.shape, found.dtype)
    diagonal = _view(xp, whole, labels, own)
    diagonal[...] = found.reshape(diagonal.shape)
    return whole
