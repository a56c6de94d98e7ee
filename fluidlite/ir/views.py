"""Views of a program that rooms above this one give: Paddle's descriptions, and the table of a notebook.

Programs have them as attributes (`program.desc`), but need none of them to be built, edited or run. Each is a
function that `fluidlite/__init__.py`, which stands above all rooms, provides here once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["description", "notebook_html", "provide"]

_views: dict[str, Callable[[Any], Any]] = {}


def provide(desc: Callable[[Any], Any], html: Callable[[Any], str]) -> None:
    """Set the functions that make a description of a program or a part of one, and a program's HTML."""
    _views.update(desc=desc, html=html)


def description(target: Any) -> Any:
    """A view with the methods of Paddle's ProgramDesc, BlockDesc, OpDesc or VarDesc."""
    return _views["desc"](target)


def notebook_html(program: Any) -> str:
    """A program as a notebook shows it."""
    html: str = _views["html"](program)
    return html
