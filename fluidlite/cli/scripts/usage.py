"""Names of Paddle in the source of a script: where they stand, what they stand for, how they are called."""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

from fluidlite.base.records import dataclass

__all__ = ["Use", "files_of", "uses_of"]

_ROOTS = ("paddle", "fluidlite")


@dataclass(frozen=True)
class Use:
    """A name with its dots, where it stands, and the keywords that it is called with, None where it is not
    called; `positions` counts its other arguments, -1 where a star hides how many there are.
    """

    name: str
    file: str
    line: int
    keywords: tuple[str, ...] | None = None
    positions: int = 0


def files_of(script: str) -> list[str]:
    """A script and the modules beside it that it imports, those that these import included."""
    found = [script]
    folder = pathlib.Path(script).parent
    for file in found:
        for name in _imported(_parsed(file)):
            parts = folder.joinpath(*name.split("."))
            for path in (parts.with_suffix(".py"), parts / "__init__.py"):
                if path.is_file() and str(path) not in found:
                    found.append(str(path))
    return found


def _parsed(file: str) -> ast.Module:
    try:
        return ast.parse(pathlib.Path(file).read_bytes(), file)
    except SyntaxError:
        # Python says so when the script imports it
        return ast.Module([], [])


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # relative ones are looked for beside the script as well
            yield from (f"{node.module}.{alias.name}" if node.module else alias.name for alias in node.names)
            if node.module:
                yield node.module


def uses_of(file: str) -> list[Use]:
    """The names of Paddle's that a file imports, reads and calls, in the order of its lines.

    Aliases are followed: imports in any form, and assignments such as `layers = fluid.layers`.
    """
    tree = _parsed(file)
    aliases = _aliases(tree)
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    found = list(_from_imports(tree, file))
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Attribute, ast.Name)) or isinstance(node.ctx, ast.Store):
            continue
        name = _dotted(node, aliases)
        # of `fluid.layers.fc` only the whole
        if name is not None and id(node) not in inner:
            found.append(_use(name, file, node.lineno, calls.get(id(node))))
    return sorted(set(found), key=lambda use: use.line)


def _from_imports(tree: ast.Module, file: str) -> Iterator[Use]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Use(a.name, file, node.lineno) for a in node.names if _is_paddle(a.name))
        elif isinstance(node, ast.ImportFrom) and not node.level and _is_paddle(node.module or ""):
            for alias in node.names:
                name = node.module if alias.name == "*" else f"{node.module}.{alias.name}"
                yield Use(str(name), file, node.lineno)


def _is_paddle(name: str) -> bool:
    return name.partition(".")[0] in _ROOTS


def _aliases(tree: ast.Module) -> dict[str, str]:
    """Name in the file -> Paddle's name with its dots."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if _is_paddle(alias.name):
                    root = alias.name.partition(".")[0]
                    found[alias.asname or root] = alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom) and not node.level and _is_paddle(node.module or ""):
            found.update({a.asname or a.name: f"{node.module}.{a.name}" for a in node.names})
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Attribute, ast.Name)):
            name = _dotted(node.value, found)
            if name is not None:
                found.update({target.id: name for target in node.targets if isinstance(target, ast.Name)})
    return found


def _dotted(node: ast.expr, aliases: dict[str, str]) -> str | None:
    """Paddle's name for `fluid.layers.fc`; None for what is not Paddle's."""
    if isinstance(node, ast.Name):
        return aliases.get(node.id)
    if isinstance(node, ast.Attribute):
        outer = _dotted(node.value, aliases)
        return None if outer is None else f"{outer}.{node.attr}"
    return None


def _use(name: str, file: str, line: int, call: ast.Call | None) -> Use:
    if call is None:
        return Use(name, file, line)
    keywords = tuple(keyword.arg for keyword in call.keywords if keyword.arg is not None)
    starred = any(isinstance(arg, ast.Starred) for arg in call.args)
    return Use(name, file, line, keywords, -1 if starred else len(call.args))
