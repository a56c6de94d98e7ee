"""Settings of the documentation: `make docs` builds it into build/docs.

Docstrings are plain text with single backticks, lists and tables as in Markdown; `read_as_written` makes
reStructuredText of them.
"""

from __future__ import annotations

import builtins
import collections.abc
import re
import typing
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx import addnodes

project = "FluidLite"
author = "the FluidLite maintainers"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"  # light and dark, and a navigation in groups
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_title = "FluidLite"
default_role = "literal"
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_use_type_comments = False  # there are none, and looking for them takes a twentieth of the build
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
myst_heading_anchors = 3
# an annotation names a class without its module; where two modules have one of that name, either is linked
suppress_warnings = ["ref.python"]

_NOT_OURS = {*dir(builtins), *typing.__all__, *collections.abc.__all__}
_ITEM = re.compile(r"^(\*{0,2}\w[\w ,*]*): (.+)$")
_MARKER = re.compile(r" *(?:[-*]|\d+\.) +")
_SPECIAL = re.compile(r"(`[^`]*`)(\w?)|([*|\\])|(\w_)(?=\W|$)")


def read_as_written(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Rewrite a docstring's lines in place."""
    lines[:] = [line for part in _paragraphs(lines) for line in (*_converted(part), "")]


def _paragraphs(lines: list[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for line in lines:
        if line.strip():
            part.append(line)
        elif part:
            yield part
            part = []
    if part:
        yield part


def _converted(part: list[str]) -> list[str]:
    """One paragraph: an example, a section with a line of dashes, a table, text set off by spaces, a list, or
    prose.
    """
    if part[0].lstrip().startswith(">>>"):
        return part
    if len(part) > 1 and re.fullmatch("-{3,}", part[1]):
        prose = part[0] == "Returns"
        return [f"**{part[0]}**", "", *(map(_escaped, part[2:]) if prose else _items(part[2:]))]
    if len(part) > 2 and re.fullmatch(r"[|-]+", part[1]):
        return _table(part)
    if all(line.startswith("    ") for line in part):
        return ["::", "", *part]
    if any(_MARKER.match(line) for line in part):
        return _list(part)
    return [_escaped(line.strip()) for line in part]


def _list(part: list[str]) -> list[str]:
    """Prose, then items that begin with a dash, a star or a number and may go on in the next lines."""
    found: list[str] = []
    indent = ""
    for line in part:
        marker = _MARKER.match(line)
        if marker:
            found += [] if indent or not found else [""]
            indent = " " * len(marker[0].lstrip())
            found.append(marker[0].lstrip() + _escaped(line[marker.end() :]))
        else:
            found.append(indent + _escaped(line.strip()))
    return found


def _items(part: list[str]) -> list[str]:
    """`name: text` lines, each of which may go on in the next ones, as a list of definitions."""
    found = []
    for line in part:
        item = _ITEM.match(line)
        if item:
            found += [_escaped(item[1]), f"   {_escaped(item[2])}"]
        elif found:
            found.append(f"   {_escaped(line.strip())}")
        else:
            found.append(_escaped(line.strip()))
    return found


def _table(part: list[str]) -> list[str]:
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in part]
    found = [".. list-table::", "   :header-rows: 1", ""]
    for row in rows[:1] + rows[2:]:
        for i, cell in enumerate(row):
            found.append(
                f"   {'- ' if i else '* - '}{_escaped(cell)}" if i == 0 else f"     - {_escaped(cell)}"
            )
    return found


def _escaped(text: str) -> str:
    """Text whose stars, bars and trailing underscores stand for themselves, but for those in backticks."""
    return _SPECIAL.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    quoted, following, mark, word = found.groups()
    if quoted:
        return rf"{quoted}\ {following}" if following else quoted
    return rf"\{mark}" if mark else rf"{word[0]}\_"


def is_other_name(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """True for a class that a class only gives another name; None leaves the decision to Sphinx."""
    return True if what == "class" and isinstance(thing, type) and "." not in thing.__qualname__ else None


def drop_links(app: Any, doctree: nodes.document) -> None:
    """Take out links from annotations to Python's own types: looking for them among all names of the
    reference takes a fifth of the build.
    """
    for link in list(doctree.findall(addnodes.pending_xref)):
        if link.get("reftarget") in _NOT_OURS:
            link.replace_self(nodes.Text(link["reftarget"].rpartition(".")[2]))


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", read_as_written)
    app.connect("autodoc-skip-member", is_other_name)
    app.connect("doctree-read", drop_links)
