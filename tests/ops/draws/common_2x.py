"""Helpers of the generators of the 2.x door: names, dtypes, shapes that broadcast, arguments as Variables."""

from __future__ import annotations

import functools
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from beside.draw import OMIT, Draw, Value

NAMES = pathlib.Path(__file__).parents[2] / "beside" / "names_2x.json"
FLOATS = ("float32", "float64", "float64", "float64")
INTS = ("int32", "int64")
COMPLEX = ("complex64", "complex128")


@functools.cache
def names_2x() -> dict[str, list[str]]:
    """Module -> the names that PaddlePaddle 2.6.2 has there; methods of Variables are paddle.Tensor's."""
    found = json.loads(NAMES.read_text())
    return {module: words.split() for module, words in found.items()}


def functions(text: str, module: str = "paddle") -> list[str]:
    """The functions with these names, in place or not, and the methods of Variables that are called so."""
    known = names_2x()
    homes = [module, "paddle.Tensor"] if module in ("paddle", "paddle.linalg", "paddle.signal") else [module]
    spelled = [form for one in text.split() for form in (one, one + "_")]
    return [f"{home}.{form}" for home in homes for form in spelled if form in known[home]]


def word(name: str) -> str:
    """The last part of a name, without the underscore of forms that work in place."""
    return name.rpartition(".")[2].rstrip("_")


def kinds(text: str) -> tuple[str, ...]:
    """The dtypes to choose from; float64 is likelier, since differences then tell who is right."""
    words = text.split()
    return (*words, *["float64"] * (len(words) if "float64" in words else 0))


REAL = kinds("int32 int64 float32 float64")
ARITHMETIC = kinds("int32 int64 float32 float64 complex64 complex128")
ANY = kinds("bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128")
MOVED = kinds("bool int32 int64 float16 float32 float64 complex64 complex128")


def either(draw: Draw, name: str, inputs: Sequence[Any], **attributes: Any) -> Value:
    """A function of inputs and attributes, or the layer (its name has a capital) made of the attributes."""
    if word(name)[0].isupper():
        layer = draw.call(name, **attributes)
        return draw.call(layer.name, *inputs)
    return draw.call(name, *inputs, **attributes)


def narrowed(draw: Draw, shape: Sequence[int], chance: float = 0.6) -> tuple[int, ...]:
    """A shape that broadcasts to another one."""
    if not draw.flag(chance):
        return tuple(shape)
    cut = draw.int(0, len(shape)) if draw.flag(0.5) else 0
    return tuple(1 if draw.flag(0.25) else size for size in shape[cut:])


def operands(
    draw: Draw,
    dtypes: Sequence[str],
    low: float = -2.0,
    high: float = 2.0,
    *,
    second: tuple[float, float] | None = None,
    mixed: float = 0.03,
) -> list[Value]:
    """Two tensors that broadcast with each other, mostly of one dtype; `second`: the range of the other."""
    full = draw.shape((0, 5))
    shapes = [tuple(full), narrowed(draw, full)]
    if draw.flag(0.3):
        shapes.reverse()
    kind = draw.choice(*dtypes)
    other = draw.choice(*dtypes) if draw.flag(mixed) else kind
    return [draw.tensor(shapes[0], kind, low, high), draw.tensor(shapes[1], other, *(second or (low, high)))]


def scalar(draw: Draw, value: Any, dtype: str, chance: float = 0.2) -> Any:
    """A number, at times as a Variable of one element."""
    if not draw.flag(chance):
        return value
    shape = () if draw.flag() else (1,)
    return draw.feed(np.array(value, dtype).reshape(shape), fixed=True, known=True)


def sizes(draw: Draw, values: Sequence[int], chance: float = 0.3) -> Any:
    """A list of whole numbers: as a list or tuple, with Variables in it, or as one Variable."""
    values = list(values)
    if not values or not draw.flag(chance):
        return tuple(values) if draw.flag(0.3) else values
    dtype = draw.choice(*INTS)
    if draw.flag():
        return draw.feed(np.array(values, dtype), fixed=True, known=True)
    return [scalar(draw, one, dtype, 0.5) for one in values]


def axis_form(draw: Draw, x: Value, *, none: bool = True, empty: bool = False) -> Any:
    """An axis as reductions take it: left out, None, a number, a list or a tuple."""
    forms = ["number", "number", "list", "tuple"]
    if none:
        forms += ["none", "omit"]
    form = draw.choice(*forms)
    if form in ("omit", "none"):
        return OMIT if form == "omit" else None
    if x.rank == 0:
        return draw.choice(0, -1, [], None) if none else 0
    if form == "number":
        return draw.axis(x)
    found = draw.axes(x, 0 if empty else 1)
    return tuple(found) if form == "tuple" else found


def indices(draw: Draw, shape: Sequence[int], count: int, *, negative: bool = False) -> Value:
    """Whole numbers below `count`, or from -count on, which other runs feed alike."""
    low = -count if negative and draw.flag(0.3) else 0
    return draw.tensor(shape, INTS, low, max(count - 1, 0), fixed=draw.flag(0.3))


def reduction(draw: Draw) -> Any:
    """How a loss is reduced."""
    return draw.maybe(draw.choice("mean", "sum", "none"), 0.75)
