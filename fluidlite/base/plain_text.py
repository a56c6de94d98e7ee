"""Text that may come from anybody (names, types, lines of a user's file) where something else reads it: in
generated source, in graphs, on a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["check_source", "identifier", "in_comment", "in_graph", "printable"]

_LONGEST_NAME = 80
_LONGEST_COMMENT = 200
_NOT_IN_NAMES = re.compile(r"[^0-9A-Za-z_]")


def identifier(text: str) -> str:
    """An identifier like `text`, of ASCII letters, digits and `_`: Python takes others that differ for
    people for one (the micro sign and mu, a letter with an accent written as one sign and as two).
    """
    found = _NOT_IN_NAMES.sub("_", text[:_LONGEST_NAME])
    # Python keeps names of two underscores at either end for itself, and plans write to `_` what nobody reads
    if found[:1].isdigit() or not found.strip("_") or (found[:2] == "__" == found[-2:]):
        found = f"v_{found}"
    return found


def in_comment(text: str) -> str:
    """`text` as a comment of generated source may hold it: printable ASCII, the rest as Python's escapes.

    For Python's compiler a lone carriage return ends a line, and what follows a comment would run.
    """
    text = text[:_LONGEST_COMMENT]
    return text if text.isascii() and text.isprintable() else ascii(text)[1:-1]


def printable(text: str) -> str:
    """`text` for a terminal or a page: signs that have no look of their own, such as controls and marks that
    change the direction of reading, as Python's escapes.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def in_graph(text: str) -> str:
    """`text` in quotes, as Graphviz reads it; a line stays a line."""
    lines = (printable(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n"))
    return '"' + "\\n".join(lines) + '"'


def check_source(lines: Iterable[str]) -> None:
    """ValueError where a line of generated source holds anything but printable ASCII, such as another end of
    a line: all text that is compiled passes here.
    """
    for line in lines:
        if not (line.isascii() and line.isprintable()):
            raise ValueError(
                f"generated source contains a character that is not printable ASCII: {line[:200]!a}"
            )
