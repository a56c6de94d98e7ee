"""New ops for a block, noted down by the op that they stand before or after, and put in all at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from fluidlite.ir.block import Block
from fluidlite.ir.operator import ROLE_ATTR, Operator, OpRole, Where

__all__ = ["Insertions"]


class Insertions:
    """Edits of one block in time linear in its size: `Block.insert_before` moves all later ops for each new
    one.

    Several ops at one place stand in the order in which they were asked for. A new op has its anchor's place
    in the user's source.
    """

    def __init__(self, block: Block) -> None:
        self.block = block
        self._before: dict[Operator, list[Operator]] = defaultdict(list)
        self._after: dict[Operator, list[Operator]] = defaultdict(list)
        self._last: list[Operator] = []

    def before(
        self,
        anchor: Operator,
        type: str,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        role: int,
        **attrs: Any,
    ) -> Operator:
        """A new op right before `anchor`."""
        return self._make(self._before[anchor], anchor, type, inputs, outputs, role, attrs)

    def after(
        self,
        anchor: Operator,
        type: str,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        role: int,
        **attrs: Any,
    ) -> Operator:
        """A new op right after `anchor`."""
        return self._make(self._after[anchor], anchor, type, inputs, outputs, role, attrs)

    def last(
        self, type: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any], role: int, **attrs: Any
    ) -> Operator:
        """A new op at the end of the block."""
        return self._make(self._last, None, type, inputs, outputs, role, attrs)

    def _make(
        self,
        place: list[Operator],
        anchor: Operator | None,
        type: str,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        role: int,
        attrs: Mapping[str, Any],
    ) -> Operator:
        op = Operator.build(self.block, type, inputs, outputs, {ROLE_ATTR: int(OpRole(role)), **attrs})
        op.where = self._where(anchor, op)
        op.infer()
        place.append(op)
        return op

    def _where(self, anchor: Operator | None, op: Operator) -> Where | None:
        """The user's line that a new op is there for: its anchor's, or that of the op which was the last."""
        near = anchor or (self.block.ops[-1] if self.block.ops else op)
        return near.where

    def apply(self) -> None:
        """Put the new ops in; `var.op` of what they write becomes the last writer."""
        self.block.insert_ops(self._before, self._after, self._last)
