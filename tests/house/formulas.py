"""The places of formulas: in Python, in the texts of declared kernels, and in CUDA C.

A formula is known by a function and what it is given: a deviation by the root of a sum with an epsilon,
softmax by the exponential of a difference.
"""

from __future__ import annotations

import ast
import pathlib
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import TypeAlias

__all__ = ["deviations", "exponentials"]

Call: TypeAlias = "tuple[int, str, str]"
"""Line, name and arguments."""

_DEVIATION = re.compile(r"\+.*eps|eps.*\+", re.DOTALL | re.IGNORECASE)
_DIFFERENCE = re.compile(r"[\w)\]] - [\w(]")
_IN_C = re.compile(r"\b(\w+)\(")


def deviations(path: pathlib.Path) -> list[int]:
    """The lines of a file with the root of a sum with an epsilon."""
    return _found(path, ("sqrt", "rsqrt", "sqrtf", "rsqrtf"), _DEVIATION)


def exponentials(path: pathlib.Path) -> list[int]:
    """The lines of a file with the exponential of a difference."""
    return _found(path, ("exp", "expf"), _DIFFERENCE)


def _found(path: pathlib.Path, functions: Sequence[str], pattern: re.Pattern[str]) -> list[int]:
    text = path.read_text(encoding="utf8")
    if not any(name in text for name in functions):
        return []
    calls = _calls_in_python(ast.parse(text)) if path.suffix == ".py" else _calls_in_c(text)
    return sorted(line for line, name, given in calls if name in functions and pattern.search(given))


def _calls_in_python(tree: ast.AST) -> Iterator[Call]:
    """The calls of a module, and those in its texts, at the lines where these begin."""
    yield from _calls_in(tree)
    parts: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts |= set(map(id, node.values))
            text = "".join(map(_shown, node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            text = node.value
        else:
            continue
        yield from ((node.lineno, name, given) for _, name, given in _calls_in_text(text))


def _shown(part: ast.expr) -> str:
    """A part of an f-string as it reads in a kernel."""
    if isinstance(part, ast.FormattedValue):
        return f"({ast.unparse(part.value)})"
    assert isinstance(part, ast.Constant)
    return str(part.value)


def _calls_in(tree: ast.AST) -> Iterator[Call]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        given = ", ".join(map(ast.unparse, [*node.args, *(keyword.value for keyword in node.keywords)]))
        yield node.lineno, ast.unparse(node.func).rpartition(".")[2], given
        # writers of machine code name a function in front of what it is given
        if node.args and isinstance(node.args[0], ast.Constant):
            yield node.lineno, str(node.args[0].value), given


def _calls_in_text(text: str) -> Iterator[Call]:
    """Calls in a text of Python, if it is one."""
    try:
        tree = ast.parse(textwrap.dedent(text))
    except (SyntaxError, ValueError):
        return
    yield from _calls_in(tree)


def _calls_in_c(text: str) -> Iterator[Call]:
    code = re.sub(r"//.*", "", text)
    for found in _IN_C.finditer(code):
        depth, end = 1, found.end()
        while depth and end < len(code):
            depth += {"(": 1, ")": -1}.get(code[end], 0)
            end += 1
        yield code.count("\n", 0, found.start()) + 1, found[1], code[found.end() : end - 1]
