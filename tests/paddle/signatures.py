"""Signatures of what modules of jobs have, of PaddlePaddle 2.6.2 or of FluidLite alike."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

MODULES = (
    "distributed",
    "distributed.communication.stream",
    "distributed.fleet",
    "distributed.fleet.metrics",
    "distributed.fleet.utils",
    "distributed.rpc",
)


def signatures(root: str) -> dict[str, str]:
    """Name -> its parameters with their defaults; of classes those of their public methods."""
    found = {}
    for module in MODULES:
        held = importlib.import_module(f"{root}.{module}")
        for name in dir(held):
            value = None if name.startswith("_") else getattr(held, name)
            if inspect.isclass(value):
                found.update(_of_class(f"{module}.{name}", value))
            elif callable(value):
                found[f"{module}.{name}"] = signature(value)
    return found


def _of_class(path: str, kind: Any) -> dict[str, str]:
    names = ["__init__", *(name for name in dir(kind) if not name.startswith("_"))]
    return {
        f"{path}.{name}": signature(getattr(kind, name)) for name in names if callable(getattr(kind, name))
    }


def signature(function: Any) -> str:
    """Parameters by name, kind and default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return "?"
    return ", ".join(
        f"{int(each.kind)} {each.name}" + ("" if each.default is each.empty else f"={each.default!r}")
        for each in parameters
    )
