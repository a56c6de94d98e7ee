"""Values of slots, as rules and kernels see them: shapes with dtypes, and values with a level of detail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fluidlite.base.dtypes import VarType
from fluidlite.base.gradient_names import GRAD_SUFFIX

__all__ = ["Argument", "Lod", "Slot", "Spec", "WithLod", "handed_on", "slot_of"]

Lod: TypeAlias = "tuple[tuple[int, ...], ...]"


class Spec(NamedTuple):
    """Shape and dtype of a value, with -1 for a dimension that is not known; `lod_level` None means "as
    shared".
    """

    shape: tuple[int, ...]
    dtype: VarType = VarType.FP32
    lod_level: int | None = None
    kind: VarType = VarType.LOD_TENSOR

    @property
    def static(self) -> bool:
        """True if every dimension is known and the value is a dense array."""
        return self.kind == VarType.LOD_TENSOR and all(dim >= 0 for dim in self.shape)

    def with_shape(self, shape: Iterable[int]) -> Spec:
        """The same dtype in another shape, dense."""
        # a plan that is made for batches of any size has numbers of another class here: they stay as they are
        whole = (int(dim) if isinstance(dim, (float, np.generic)) else dim for dim in shape)
        return Spec(tuple(whole), self.dtype)


class Slot(NamedTuple):
    """One input or output slot: `many` variables allowed, `optional` when it may be absent, `floating` when
    programs of 1.8.5 may not put integers in it.
    """

    name: str
    many: bool = False
    optional: bool = False
    floating: bool = False

    @classmethod
    def parse(cls, text: str) -> Slot:
        """`X`, `X*`, `X?` or `X*?`, with a point behind the name of a floating one."""
        return cls(text.rstrip("*?."), "*" in text, "?" in text, "." in text)


class WithLod(NamedTuple):
    """A kernel's output together with its level of detail, as offsets."""

    value: Any
    lod: Lod


def handed_on(value: Any, lod: Lod) -> Any:
    """`value` with a level of detail that an input had, or as it is where that had none.

    So a kernel makes none by itself; one that does by `WithLod` is that of an op with `makes_lod`.
    """
    return WithLod(value, lod) if lod else value


class Argument(NamedTuple):
    parameter: str
    kind: str  # "in", "out", "lod", "attr", or "xp" / "wants" / "ctx"
    key: str


def slot_of(parameter: str, slots: Mapping[str, Slot]) -> str | None:
    """The slot that a parameter names: itself, or with a leading d for each @GRAD."""
    stem, suffix = parameter, ""
    while True:
        if stem + suffix in slots:
            return stem + suffix
        if not stem.startswith("d") or len(stem) < 2:
            return None
        stem = stem[1:]
        suffix = suffix + GRAD_SUFFIX
