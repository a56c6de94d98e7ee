"""Errors that nobody catches: Python prints the user's frames of them, and not those of FluidLite.

Public functions shorten the tracebacks of their errors themselves, so that they are short in notebooks and in
tests, too (`fluidlite.base.tracebacks`); this is for what leaves by other ways, such as an operator, a
property or a generator.
"""

from __future__ import annotations

import importlib
import sys
from types import TracebackType

__all__ = ["show_short"]


def show_short() -> None:
    """Have `sys.excepthook` print short tracebacks; what it did before comes after."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, Exception) and trace is not None:
            # start-up time: nothing has failed yet
            importlib.import_module("fluidlite.base.tracebacks").shorten(error)
            trace = error.__traceback__
        before(kind, error, trace)

    sys.excepthook = hook
