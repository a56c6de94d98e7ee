"""The ops of a block are changed by the block's own methods, which check readers and bump the version."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, TypeGuard

from modules import ROOT, modules

BLOCK = ROOT / "fluidlite" / "ir" / "block.py"
MUTATORS = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"}


def _is_ops(node: ast.expr) -> bool:
    """`x.ops`, or a part of it; a class may have ops of its own, as `self.ops`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if not isinstance(node, ast.Attribute) or node.attr != "ops":
        return False
    return not (isinstance(node.value, ast.Name) and node.value.id == "self")


def _calls_mutator(node: ast.AST) -> TypeGuard[Any]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS


def _edited(tree: ast.AST) -> Iterator[ast.expr]:
    """Assignments to ops, deletions of some, and calls of a list's methods that change it."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.Delete)):
            yield from filter(_is_ops, node.targets)
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)) and _is_ops(node.target):
            yield node.target
        elif _calls_mutator(node):
            yield from filter(_is_ops, [node.func.value])


def test_ops_are_edited_by_their_block() -> None:
    texts = {path: path.read_text(encoding="utf8") for path in modules().values() if path != BLOCK}
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, text in texts.items()
        if ".ops" in text.replace("fluidlite.ops", "")  # parsing them all takes five seconds
        for node in _edited(ast.parse(text))
    ]
    assert not found
