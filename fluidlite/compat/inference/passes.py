"""The list of passes of Paddle's optimizer, for scripts that edit it."""

from __future__ import annotations

from collections.abc import Sequence

from fluidlite.ir.warned import warn_user

__all__ = ["PaddlePassBuilder"]


class PaddlePassBuilder:
    """An empty list of Paddle's passes. An edit is accepted with a warning: plans have passes of their own,
    which leave results as they are.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner

    def all_passes(self) -> list[str]:
        """The names of the passes: none of Paddle's is here."""
        return []

    analysis_passes = all_passes

    def append_pass(self, name: str) -> None:
        """Add a pass at the end."""
        self._without_effect("append_pass")

    append_analysis_pass = append_pass

    def insert_pass(self, index: int, name: str) -> None:
        """Add a pass at a place."""
        self._without_effect("insert_pass")

    def delete_pass(self, name_or_index: str | int) -> None:
        """Take a pass out."""
        self._without_effect("delete_pass")

    def set_passes(self, names: Sequence[str]) -> None:
        """Have exactly these passes."""
        self._without_effect("set_passes")

    def turn_on_debug(self) -> None:
        """Have the graph written after each pass."""
        self._without_effect("turn_on_debug")

    def debug_string(self) -> str:
        """The names of the passes, a line each: none."""
        return ""

    def _without_effect(self, method: str) -> None:
        warn_user(
            f"{self._owner}.pass_builder().{method} changes nothing here: Paddle's passes are not here; "
            "plans have their own"
        )
