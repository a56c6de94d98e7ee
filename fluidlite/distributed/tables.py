"""Tables for terminals and pipes."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["table"]


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, colour: bool = False) -> str:
    """Columns as wide as their widest cell; the first `left` of them start at the left, the others end at
    the right.
    """
    widths = [max(len(row[index]) for row in (heads, *rows)) for index in range(len(heads))]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()

    head = line(heads)
    return "\n".join([f"\x1b[1m{head}\x1b[0m" if colour else head, *map(line, rows)]) + "\n"
