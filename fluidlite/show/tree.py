"""Ops in groups: what a folded program is made of."""

from __future__ import annotations

from collections.abc import Iterator

from fluidlite.base.records import dataclass
from fluidlite.ir.operator import Operator
from fluidlite.ir.where import Where

__all__ = ["Group", "Tree", "ops_of"]


@dataclass(frozen=True)
class Group:
    """Ops that belong together.

    `kind` is "scope", "call", "loop", "layer", "repeat" (of groups that are alike), "turn" (one of these),
    "block" (of an op) or "part" (one of its blocks); `where` the line that it comes from, `op` the op that
    runs it.
    """

    label: str
    kind: str
    children: tuple[Tree, ...]
    where: Where | None = None
    op: Operator | None = None


Tree = Group | Operator


def ops_of(tree: Tree) -> Iterator[Operator]:
    """All ops of a tree, in order."""
    if isinstance(tree, Operator):
        yield tree
        return
    if tree.op is not None:
        yield tree.op
    for child in tree.children:
        yield from ops_of(child)
