"""The modules of the house and what each imports: read from the source, nothing is executed."""

from __future__ import annotations

import ast
import functools
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass

import networkx

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOMES = {"fluidlite": "fluidlite", "fluidlite.executor": "executor", "fluidlite.transpiler": "transpiler"}


@dataclass(frozen=True)
class Import:
    """One import of a module of the house: who imports what, on which line, and if inside a function."""

    importer: str
    imported: str
    line: int
    lazy: bool


@functools.cache
def modules(root: pathlib.Path = ROOT) -> dict[str, pathlib.Path]:
    """Module name -> file, of everything that is installed."""
    return {
        _name(package, path.relative_to(root / folder)): path
        for package, folder in HOMES.items()
        for path in sorted((root / folder).rglob("*.py"))
    }


def _name(package: str, path: pathlib.Path) -> str:
    return ".".join([package, *path.with_suffix("").parts]).removesuffix(".__init__")


@functools.cache
def imports(root: pathlib.Path = ROOT) -> tuple[Import, ...]:
    """Every import between modules of the house, those for type checkers only left out."""
    return tuple(found for name in modules(root) for found in _imports_of(name, modules(root)))


def _imports_of(name: str, known: dict[str, pathlib.Path]) -> Iterator[Import]:
    tree = ast.parse(known[name].read_text(encoding="utf8"))
    for node, lazy in _statements(tree, False):
        for target in _targets(node, known):
            if target != name:
                yield Import(name, target, node.lineno, lazy)


def _statements(node: ast.AST, lazy: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """The import statements below a node, each with True if it stands in a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child, lazy
        elif isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        else:
            inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from _statements(child, lazy or inside)


def _targets(node: ast.Import | ast.ImportFrom, known: dict[str, pathlib.Path]) -> Iterator[str]:
    """The modules of the house that an import statement needs: a submodule where one has the name, else
    the module itself.
    """
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in known)
        return
    for alias in node.names:
        whole = f"{node.module}.{alias.name}"
        if whole in known:
            yield whole
        elif node.module in known:
            yield node.module


def circles(root: pathlib.Path = ROOT) -> list[list[str]]:
    """Groups of modules that import each other, imports inside functions included."""
    graph = networkx.DiGraph((found.importer, found.imported) for found in imports(root))
    groups = [sorted(group) for group in networkx.strongly_connected_components(graph) if len(group) > 1]
    return sorted(groups, key=len, reverse=True)
