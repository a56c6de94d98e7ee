"""The interface between a parameter server and the executor that runs its blocks."""

from __future__ import annotations

from typing import Any, Protocol

from fluidlite.ir.block import Block
from fluidlite.values.scope import Scope

__all__ = ["BlockRunner"]


class BlockRunner(Protocol):
    """Runs the blocks of one server, in variables that last from message to message.

    `scope` holds the persistable ones, `random` is the source of random numbers of all blocks.
    """

    scope: Scope
    random: Any

    def find(self, name: str) -> Any:
        """The value of a variable, an array or SelectedRows; None where nothing has written it."""

    def write(self, name: str, value: Any) -> None:
        """Give a variable a value without levels of detail; a persistable one of the same shape and type is
        changed in place.
        """

    def hold(self, name: str, value: Any) -> None:
        """Keep what has arrived under a name for the next block, without a copy."""

    def run(self, block: Block) -> None:
        """Run a block."""

    def evaluate(self, block: Block, name: str, value: Any) -> Any:
        """The output of a block's last op where `name` holds `value`, which is forgotten afterwards."""
