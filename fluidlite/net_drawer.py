"""`fluid.net_drawer`: a program's graph in Graphviz's language."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from fluidlite.base.imported_names import imported_names
from fluidlite.debugger import draw_block_graphviz
from fluidlite.ir.program import Program

__all__ = ["draw_graph", "unique_id"]

_numbers = itertools.count(1)


def unique_id() -> int:
    """A number that was not given before."""
    return next(_numbers)


def draw_graph(startup_program: Program, main_program: Program, **kwargs: Any) -> None:
    """Write the main program's global block to the file `graph_attr["label"]` with `.dot` behind it, or to
    `./temp.dot`; the startup program only makes what this one shows.
    """
    path = str(kwargs.get("filename", "./temp.dot"))
    draw_block_graphviz(main_program.global_block(), path=path)


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
