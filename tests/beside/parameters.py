"""Parameters of functions that their generators give a value to, in one of so many draws."""

from __future__ import annotations

import functools
import importlib
import inspect
import random
from collections.abc import Iterator
from typing import Any

from beside.draw import Draw, generators
from beside.language import Case

__all__ = ["never_drawn", "parameters"]


@functools.cache
def parameters(path: str) -> tuple[str, ...]:
    """The parameters of a function, of a method without its object, or of the class of a layer."""
    root, *parts = path.split(".")
    found: Any = importlib.import_module({"fluid": "fluidlite", "paddle": "fluidlite.paddle"}[root])
    if parts[0] == "Tensor":
        found, parts = importlib.import_module("fluidlite.ir.variable").Variable, parts[1:]
    for part in parts:
        found = getattr(found, part)
    try:
        given = inspect.signature(found).parameters
    except (TypeError, ValueError):
        return ()
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    names = [name for name, one in given.items() if one.kind not in kinds]
    return tuple(names[1:] if path.startswith("paddle.Tensor.") else names)


def never_drawn(door: str, path: str, draws: int, kept: frozenset[str] = frozenset()) -> set[str]:
    """The parameters of a function, but for those `kept`, that none of its first draws gives."""
    left = set(parameters(path)) - kept
    for seed in range(draws):
        if not left:
            break
        draw = Draw(random.Random(f"{path} {seed}"), door)
        generators_of(door)[path](draw, path)
        for call in _calls(draw.calls, path):
            names = parameters(path)
            left -= {*names[: len(call["args"])], *call["kwargs"]}
    return left


generators_of = functools.cache(generators)


def _calls(item: Any, path: str) -> Iterator[Case]:
    """All calls of a function, or of the method of that name, within calls."""
    if isinstance(item, list):
        for one in item:
            yield from _calls(one, path)
    elif isinstance(item, dict):
        # within attributes calls are nested, too
        called = item.get("call", item.get("with", ""))
        if called == path or _is_method(called, path):
            yield {"args": item.get("args", []), "kwargs": item.get("kwargs", {})}
        yield from _calls(list(item.values()), path)


def _is_method(called: Any, path: str) -> bool:
    return (
        isinstance(called, str)
        and path.startswith("paddle.Tensor.")
        and called.rpartition(".")[2] == path.rpartition(".")[2]
    )
