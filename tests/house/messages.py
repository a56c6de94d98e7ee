"""Every text of the product that a user may read: errors, warnings, help, what commands print.

    python tests/house/messages.py [FOLDER ...] [--like PATTERN]

prints file, line, the call that takes the text, and the text itself, with `{}` for each value in it.
`test_messages.py` counts phrases that readers have to decode.
"""

from __future__ import annotations

import argparse
import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from measure import Source, sources

WORDS = 3  # texts of fewer words are names, keys and formats
CODE = re.compile(r"%\w+ = |\bcall void\b|@LOOP\b")  # of compiled loops


@dataclass(frozen=True)
class Message:
    """One text, the place of its first line, and the name of the call that takes it, if one does."""

    file: str
    line: int
    call: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.call}: {self.text}"


@functools.cache
def messages() -> list[Message]:
    """All of them, in the order of files and lines."""
    return [found for source in sources() for found in _messages_of(source)]


def _messages_of(source: Source) -> Iterator[Message]:
    # docstrings, and texts below fields that describe them
    prose = {id(node.value) for node in source.nodes if isinstance(node, ast.Expr)}
    for node, call in _texts(source.tree, ""):
        text = " ".join(_rendered(node).split())
        if (
            id(node) not in prose
            and not CODE.search(text)
            and len(re.findall(r"[A-Za-z]{2,}", text)) >= WORDS
            and " " in text
        ):
            yield Message(source.name, node.lineno, call, text)


def _texts(node: ast.AST, call: str) -> Iterator[tuple[ast.expr, str]]:
    """The strings below a node, each with the call around it; an f-string is one string."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.JoinedStr) or (
            isinstance(child, ast.Constant) and isinstance(child.value, str)
        ):
            yield child, call
        if isinstance(child, ast.JoinedStr):
            inside = [part for part in child.values if isinstance(part, ast.FormattedValue)]
            for part in inside:
                yield from _texts(part, call)
        elif isinstance(child, ast.Call):
            yield from _texts(child, ast.unparse(child.func).rpartition(".")[2])
        else:
            yield from _texts(child, call)


def _rendered(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_rendered(part) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    assert isinstance(node, ast.Constant)
    return str(node.value)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="only files below these")
    parser.add_argument("--like", default="", metavar="PATTERN", help="only texts that this matches")
    args = parser.parse_args()
    for found in messages():
        below = not args.folders or found.file.startswith(tuple(args.folders))
        if below and re.search(args.like, found.text):
            print(found)


if __name__ == "__main__":
    main()
