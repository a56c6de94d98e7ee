"""Families of ops, as far as their sources tell without being imported: which of them declares an op."""

from __future__ import annotations

import functools
import pathlib
import re

__all__ = ["candidates", "families"]

_FIRST_ARGUMENT = re.compile(r'^(?:\w+ = )?\w+\(\s*"(\w+)"', re.MULTILINE)
_QUOTED_WORD = re.compile(r'"(\w+)(?=")')


@functools.cache  # two threads at once both read; neither sees a half-filled dict
def families() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Module name of each family -> the first arguments of its top-level calls, and all words in quotes.

    Read once, from the sources: importing every family takes twenty times as long.
    """
    folder = pathlib.Path(__file__).parents[1] / "ops"
    found = {}
    for path in sorted(folder.rglob("*.py")):
        if path.stem != "__init__":
            name = ".".join(path.relative_to(folder).with_suffix("").parts)
            text = path.read_text(encoding="utf8")
            found[name] = (frozenset(_FIRST_ARGUMENT.findall(text)), frozenset(_QUOTED_WORD.findall(text)))
    return found


def candidates(op_type: str) -> list[str]:
    """Families that may declare an op: those whose top-level calls begin with its name, such as `Op("mul"`;
    where there is none, those that have it in quotes anywhere.
    """
    declaring = [name for name, (first, _) in families().items() if op_type in first]
    return declaring or [name for name, (_, quoted) in families().items() if op_type in quoted]
