"""Rows that are made of layers, and the arrays that they read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Row = Any  # Python 3.7 cannot say dict[str, Any] here
RNG = np.random.RandomState(3)


def layers(build: Callable[..., Any], grad: bool = True, steps: bool = False, **inputs: Any) -> Row:
    """A row that `build(fluid, **variables)` adds to a program; it gives the outputs, the loss being the sum
    of the first. An input is an array, or an array and its lengths.

    Gradients of all floating-point inputs and parameters are fetched with `grad`; where `steps` is true
    nothing but the outputs is, since what the row does stays in its parameters.
    """
    return {"build": build, "inputs": inputs, "grad": grad, "steps": steps}


def sized(make: Callable[..., Row], *sizes: Any) -> list[Callable[[], Row]]:
    """A row at three sizes, each the arguments of `make`."""
    return [lambda size=size: make(*size) for size in sizes]  # type: ignore[misc]


def uniform(*shape: int) -> np.ndarray:
    return RNG.uniform(0.1, 1, shape).astype("float32")


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(0, 1, shape).astype("float32")


def shares(*shape: int) -> np.ndarray:
    """Numbers whose last dimension adds up to 1."""
    found = uniform(*shape)
    return found / found.sum(-1, keepdims=True)


def below(most: int, *shape: int) -> np.ndarray:
    """Integers from 0 to most - 1."""
    return RNG.randint(0, most, shape).astype("int64")


def lengths(count: int, rows: int) -> list[list[int]]:
    """Lengths of so many sequences that have so many rows in all, from half the mean to one and a half."""
    mean = rows // count
    found = RNG.randint(max(mean // 2, 1), mean + mean // 2 + 1, count)
    while found.sum() != rows:
        step = 1 if found.sum() < rows else -1
        place = RNG.randint(count)
        found[place] = max(found[place] + step, 1)
    return [found.tolist()]
