"""Variables that an op names as its outputs and leaves as they are."""

from __future__ import annotations

from collections.abc import Iterable

from fluidlite.ir.operator import Operator
from fluidlite.ir.prune import writes

__all__ = ["changed_by", "is_frozen"]


def is_frozen(op: Operator) -> bool:
    """True for a batch_norm that takes the running statistics as they are."""
    attrs = op.attrs
    return bool(
        attrs.get("use_global_stats") or (attrs.get("is_test") and not attrs.get("trainable_statistics"))
    )


def changed_by(ops: Iterable[Operator]) -> set[str]:
    """The variables that some ops write; statistics that a frozen batch_norm passes on are none of them, nor
    is what `fetch` fills, which no plan keeps.
    """
    found: set[str] = set()
    for op in ops:
        if op.type == "fetch":
            continue
        names = set(writes(op))
        if op.type == "batch_norm" and is_frozen(op):
            names.difference_update(op.input_arg_names)
        found |= names
    return found
