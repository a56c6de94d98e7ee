"""Warnings of programs that run and hardly do what was meant, each at the user's own line."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from fluidlite.base.errors import FluidWarning
from fluidlite.base.plain_text import printable
from fluidlite.ir.where import Where, is_source, user_location

__all__ = ["warn_near_miss", "warn_user"]

# by file, what Python remembers of warnings that were shown, so that a line says each of them once
_shown: dict[str, dict[Any, Any]] = {}


def warn_user(text: str, where: Where | None = None, category: type[Warning] = FluidWarning) -> None:
    """Issue a warning at `where`, by default the line outside FluidLite that is running.

    A line warns once for each text; filters of `warnings` decide as usual.
    """
    place = where or user_location() or Where("<unknown>", 0)
    # Python shows the line of the file that a warning names, which may be any that a model names
    file = place.file if is_source(place.file) else f"<{printable(place.file)}>"
    warnings.warn_explicit(text, category, file, place.line, registry=_shown.setdefault(file, {}))


def warn_near_miss(owner: str, name: str, known: Iterable[str]) -> None:
    """Warn of an attribute that `owner` lacks and whose name is nearly that of one that it has."""
    words = [word for word in known if not word.startswith("_")]
    if not words or name.startswith("_"):
        return
    from difflib import get_close_matches  # start-up time

    near = get_close_matches(name, words, n=1, cutoff=0.85)
    if near:
        warn_user(f"{owner} has no {name!r}: nothing reads it; did you mean {near[0]!r}?")
