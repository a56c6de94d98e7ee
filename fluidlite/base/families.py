"""Families of ops, the modules of `fluidlite.ops`: which of them declares an op, by the written index."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from fluidlite.base.gradient_names import OUTPUTS_GRAD
from fluidlite.base.op_index import FACTS, FAMILIES

__all__ = ["FAMILIES", "families", "stems", "types_with"]

_SUFFIXES = (OUTPUTS_GRAD, "_grad")


@functools.cache  # two threads at once both make it; neither sees a half-filled dict
def families() -> dict[str, str]:
    """Op type -> the family to import for it. Gradient ops that stand with their op are left out."""
    return {op_type: family for family, types in FAMILIES.items() for op_type in types.split()}


def types_with(field: str, word: str) -> frozenset[str]:
    """The op types that have a word in a field, such as "black" in `amp`; no family is imported for it."""
    return frozenset(FACTS.get(f"{field} {word}", "").split())


def stems(op_type: str) -> Iterator[str]:
    """The type, that of which it is the gradient by its name, and so on."""
    yield op_type
    while suffix := next(filter(op_type.endswith, _SUFFIXES), ""):
        op_type = op_type.removesuffix(suffix)
        yield op_type
