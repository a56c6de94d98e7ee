"""Pictures as SVG: boxes, lines and texts, readable on light and dark screens.

A picture is one text without scripts, fonts or links. Its colours stand in a style that follows the reader's
theme; programs that do not know this rule of style show the light one. Text is monospaced, so that its width
is known without measuring it.
"""

from __future__ import annotations

import html
import pathlib
from collections.abc import Iterable, Sequence

from fluidlite.base.plain_text import printable

__all__ = ["CHAR", "Picture", "box", "chars", "document", "line", "text"]

CHAR = 7.3  # units that a character of 12 units is wide
_FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
# class -> light fill, light edge, dark fill, dark edge
_BOXES = {
    "forward": ("#e3edf9", "#4a78b8", "#1d2c40", "#6ea3e6"),
    "backward": ("#f8eadb", "#c77b30", "#3a2a18", "#e0a15e"),
    "communication": ("#f7dde6", "#bd3f6c", "#3d1c29", "#e8759d"),
    "update": ("#e0f1e2", "#3f9150", "#1b3521", "#6cc27d"),
    "server": ("#ece6f6", "#7a5bb0", "#2a2140", "#ae92e0"),
}
# class -> light colour, dark colour of text
_TEXTS = {"ink": ("#1f2328", "#e6edf3"), "soft": ("#59636e", "#9da7b1"), "head": ("#1f2328", "#e6edf3")}
_PAPER = ("#ffffff", "#16191d")
_LINE = ("#7d8590", "#8b949e")


class Picture(str):
    """The text of an SVG, which notebooks show as a picture."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return f"<a picture, {len(self)} characters of SVG>"

    def save(self, path: str | pathlib.Path) -> None:
        """Write the picture to a file."""
        pathlib.Path(path).write_text(self, encoding="utf8")


def document(width: float, height: float, title: str, parts: Iterable[str]) -> Picture:
    """A picture of so many units; readers of the screen hear its title."""
    label = html.escape(printable(title))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{label}">'
    )
    paper = f'<rect class="paper" width="{width:.0f}" height="{height:.0f}" rx="8"/>'
    arrow = (
        '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>'
    )
    return Picture("\n".join([head, f"<style>{_style()}</style>", arrow, paper, *parts, "</svg>", ""]))


def _style() -> str:
    shared = (
        f"text{{font:12px {_FONT}}}.head{{font-weight:600}}path,line{{fill:none}}"
        ".edge{stroke-width:1.2}.saved{stroke-width:1;stroke-dasharray:2 3}rect{stroke-width:1.2}"
    )
    return f"{shared}{_theme(0)}@media (prefers-color-scheme:dark){{{_theme(1)}}}"


def _theme(dark: int) -> str:
    rules = [f".paper{{fill:{_PAPER[dark]};stroke:none}}", f".edge,.saved{{stroke:{_LINE[dark]}}}"]
    rules += [f".tip{{fill:{_LINE[dark]}}}"]
    rules += [f"text.{name}{{fill:{colours[dark]}}}" for name, colours in _TEXTS.items()]
    for name, colours in _BOXES.items():
        fill, edge = colours[2 * dark : 2 * dark + 2]
        rules.append(f"rect.{name}{{fill:{fill};stroke:{edge}}}text.{name}{{fill:{edge}}}")
    return "".join(rules)


# ---------------------------------------------------------------------- parts
def chars(width: float) -> int:
    """The number of characters that fit."""
    return int(width / CHAR)


def box(x: float, y: float, width: float, height: float, kind: str, lines: Sequence[str], about: str) -> str:
    """A box with up to two lines, the first in the ink of headings; `about` is shown under the pointer."""
    middle = x + width / 2
    top = y + height / 2 + 4 - 8 * (len(lines) - 1)
    rows = [
        text(middle, top + 16 * number, _cut(row, chars(width - 10)), "soft" if number else "head", "middle")
        for number, row in enumerate(lines)
    ]
    shape = f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5"/>'
    hint = "\n".join(html.escape(printable(row)) for row in about.split("\n"))
    return f"<g><title>{hint}</title>{shape}{''.join(rows)}</g>"


def _cut(row: str, most: int) -> str:
    return row if len(row) <= most else f"{row[: most - 1]}…"


def text(x: float, y: float, words: str, kind: str = "ink", anchor: str = "start") -> str:
    """One line of text."""
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="{kind}" x="{x:g}" y="{y:g}"{where}>{html.escape(printable(words))}</text>'


def line(points: Sequence[tuple[float, float]], kind: str = "edge", both: bool = False) -> str:
    """A line through points, with rounded corners between them and an arrow at its end."""
    (x, y), *others = points
    path = [f"M{x:g} {y:g}"]
    for (x0, y0), (x1, y1), (x2, y2) in zip(points, points[1:], points[2:]):
        before, after = _near((x1, y1), (x0, y0)), _near((x1, y1), (x2, y2))
        path.append(f"L{before[0]:g} {before[1]:g}Q{x1:g} {y1:g} {after[0]:g} {after[1]:g}")
    path.append(f"L{others[-1][0]:g} {others[-1][1]:g}")
    ends = ' marker-start="url(#end)"' if both else ""
    return f'<path class="{kind}" d="{"".join(path)}" marker-end="url(#end)"{ends}/>'


def _near(corner: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """A point on the way from a corner, as far from it as its rounding reaches."""
    dx, dy = other[0] - corner[0], other[1] - corner[1]
    length = max((dx * dx + dy * dy) ** 0.5, 1e-9)
    reach = min(6.0, length / 2) / length
    return corner[0] + dx * reach, corner[1] + dy * reach
