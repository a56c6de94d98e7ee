"""The modules of the house and what each imports: read from the source, nothing is executed."""

from __future__ import annotations

import ast
import functools
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass

import networkx

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOMES = {
    "fluidlite": ROOT / "fluidlite",
    "fluidlite.executor": ROOT / "executor",
    "fluidlite.transpiler": ROOT / "transpiler",
}


@dataclass(frozen=True)
class Import:
    """One import of a module of the house: who imports what, on which line, and whether inside a function."""

    importer: str
    imported: str
    line: int
    lazy: bool


@functools.cache
def modules() -> dict[str, pathlib.Path]:
    """Module name -> file, of everything that is installed."""
    return {
        _name(home, path): path for home, folder in HOMES.items() for path in sorted(folder.rglob("*.py"))
    }


def _name(home: str, path: pathlib.Path) -> str:
    parts = path.relative_to(HOMES[home]).with_suffix("").parts
    return ".".join([home, *parts]).removesuffix(".__init__")


@functools.cache
def imports() -> tuple[Import, ...]:
    """Every import between modules of the house, those for type checkers only left out."""
    return tuple(found for name, path in modules().items() for found in _imports_of(name, path))


def _imports_of(name: str, path: pathlib.Path) -> Iterator[Import]:
    tree = ast.parse(path.read_text(encoding="utf8"))
    for node, lazy in _statements(tree, False):
        for target in _targets(node):
            if target != name:
                yield Import(name, target, node.lineno, lazy)


def _statements(node: ast.AST, lazy: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """The import statements below a node, each with whether it stands in a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child, lazy
        elif isinstance(child, ast.If) and ast.unparse(child.test) in (
            "TYPE_CHECKING",
            "typing.TYPE_CHECKING",
        ):
            continue
        else:
            inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from _statements(child, lazy or inside)


def _targets(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The modules of the house that an import statement needs: a submodule where one has the name, else
    the module itself.
    """
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in modules())
        return
    for alias in node.names:
        whole = f"{node.module}.{alias.name}"
        if whole in modules():
            yield whole
        elif node.module in modules():
            yield node.module


def circles() -> list[list[str]]:
    """Groups of modules that import each other, imports inside functions included."""
    graph = networkx.DiGraph((found.importer, found.imported) for found in imports())
    groups = [sorted(group) for group in networkx.strongly_connected_components(graph) if len(group) > 1]
    return sorted(groups, key=len, reverse=True)
