"""`paddle.einsum`: products of variables whose dimensions have letters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fluidlite.ir.variable import Variable
from fluidlite.ops.kernels.labels import parse, segments, sizes_of
from fluidlite.paddle.build import append, need_float

__all__ = ["einsum"]

_UNKNOWN = 32  # what a dimension of unknown size counts for in the choice of an order
_FEW = 6  # operands of which every order is tried: their number grows as a factorial does


def einsum(equation: str, *operands: Variable) -> Variable:
    """Products of variables whose dimensions have letters, summed over the letters that the result has not:
    "bij,bjk->bik". More than two are multiplied in pairs, in an order that takes few products.
    """
    for operand in operands:
        need_float(operand, "einsum")
    texts, out = _in_small_letters(*segments(equation))
    whole = f"{','.join(texts)}->{out}"
    labels = parse(whole, [len(operand.shape) for operand in operands])
    sizes = sizes_of(labels, [operand.shape for operand in operands])
    if len(operands) < 3:
        return _product(whole, *operands)
    left = list(zip(texts, operands, strict=True))
    for step in _order(whole, [[sizes[label] for label in each] for each in labels.operands]):
        taken = [left.pop(place) for place in sorted(step, reverse=True)][::-1]
        while len(taken) > 1:
            (one, x), (two, y) = taken[:2]
            others = [text for text, _ in left + taken[2:]]
            kept = _kept(one + two, out + "".join(others)) if others else out
            taken[:2] = [(kept, _product(f"{one},{two}->{kept}", x, y))]
        left += taken
    return left[0][1]


def _product(equation: str, *operands: Variable) -> Variable:
    labels = parse(equation, [len(operand.shape) for operand in operands])
    return append(
        "einsum",
        {"Operands": list(operands)},
        {"equation": equation},
        dtype=operands[0].dtype,
        scalar=not labels.out,
    )


def _in_small_letters(texts: list[str], out: str) -> tuple[list[str], str]:
    """The same equation as 2.6.2 writes it, unless a large letter is another label than the small one."""
    letters = set("".join(texts)) - {"."}
    if len({letter.lower() for letter in letters}) < len(letters):
        return texts, out
    return [text.lower() for text in texts], out.lower()


def _kept(letters: str, needed: str) -> str:
    """Those letters that are still needed, behind `...`."""
    own = dict.fromkeys(letters.replace(".", ""))
    return ("..." if "." in letters else "") + "".join(letter for letter in own if letter in needed)


def _order(equation: str, shapes: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Which operands to multiply next, of those that are left; the product comes behind these."""
    # repeated zeros: nothing is computed here, whatever the sizes
    zero = np.zeros(())
    stand_ins = [np.broadcast_to(zero, [size if size >= 0 else _UNKNOWN for size in each]) for each in shapes]
    how = "optimal" if len(shapes) <= _FEW else "greedy"
    steps: list[tuple[int, ...]] = np.einsum_path(equation, *stand_ins, optimize=how)[0][1:]
    return steps
