"""Notebooks: the cell that a line is in, and one line of output that is replaced.

Nothing is imported: where IPython is not loaded, no notebook runs this code.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["ReplacedLine", "cell_of", "in_notebook"]


def _shell() -> Any:
    """IPython's shell; None where this process has none."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def cell_of(file: str) -> str:
    """`In[2]` for the file of a cell, whose own name tells a reader nothing; other files as they are."""
    shell = _shell()
    named = None if shell is None else shell.compile.format_code_name(file)
    return file if named is None else str(named[1])


def in_notebook() -> bool:
    """True where output goes to the cells of a notebook, not to a terminal."""
    shell = _shell()
    # the shell of a kernel; terminals have one without
    return shell is not None and bool(shell.has_trait("kernel"))


class ReplacedLine:
    """One line of a cell's output, which each `show` replaces: the notebook keeps the last one only."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str) -> None:
        """Display the text in place of the one before."""
        shown = {"text/plain": text}
        if self._handle is None:
            self._handle = sys.modules["IPython"].display.display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)
