"""Cells of a notebook: HTML without scripts, made of tables and text."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

__all__ = ["table_cell", "text_cell"]

_STYLE = "text-align:left;padding:2px 10px;vertical-align:top"
_GOOD = "#3f9150"
_BAD = "#bd3f6c"


def table_cell(
    title: str, heads: Sequence[str], rows: Iterable[Sequence[object]], good: bool | None = None
) -> str:
    """A headline, green or red where something was `good` or not, and a table below it."""
    found = list(rows)
    parts = [_headline(title, good)]
    if found:
        top = "".join(f'<th style="{_STYLE}">{html.escape(head)}</th>' for head in heads)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in found)
        parts.append(f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>")
    return f"<div>{''.join(parts)}</div>"


def text_cell(text: str) -> str:
    """The first line as a headline, which opens the rest."""
    first, _, rest = text.partition("\n")
    return f"<details><summary>{html.escape(first)}</summary><pre>{html.escape(rest)}</pre></details>"


def _headline(title: str, good: bool | None) -> str:
    if good is None:
        return f"<p><strong>{html.escape(title)}</strong></p>"
    colour = _GOOD if good else _BAD
    style = f"border-left:3px solid {colour};padding-left:8px"
    return f'<p style="{style}"><strong>{html.escape(title)}</strong></p>'


def _cell(value: object) -> str:
    # numbers stand below each other by their last digits
    style = _STYLE.replace("left", "right", 1) if isinstance(value, (int, float)) else _STYLE
    text = f"{value:,}" if isinstance(value, (int, float)) else str(value)
    return f'<td style="{style}"><span style="white-space:pre-wrap">{html.escape(text)}</span></td>'
