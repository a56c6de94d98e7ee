"""The house in numbers: how long, how dense, how entangled.

    python tests/house/measure.py [PATH ...] [--list MEASURE]

Without a path it measures the repository that it lies in. Each path is a checkout, also an old one, and
becomes a column: before and after stand side by side. `--list` shows what a measure counts, place by place.
The limits are held by `test_budgets.py`.
"""

from __future__ import annotations

import argparse
import ast
import collections
import functools
import io
import itertools
import pathlib
import re
import statistics
import tokenize
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from duplicates import duplicates
from modules import HOMES, ROOT, circles, imports
from op_type_tables import tables_of_ops

COLUMNS, FILE_LINES, FUNCTION_LINES = 110, 600, 40
RIDDLES = ("What", "Whether", "Where", "Who", "Nobody", "Nothing")
# comments for tools, which give no reason
DIRECTIVE = re.compile(r"\s*# (noqa|type:|fmt:|mypy:|pragma).*")
NO_CODE = frozenset(
    [tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER]
)
# fluid itself has these classes twice, under these names
DOOR = "fluidlite/paddle/"
FLUIDS_OWN = frozenset(
    [
        *("ChunkEvaluator", "DetectionMAP", "EditDistance", "DistributedStrategy", "Fleet", "OutputWrapper"),
        # a distribution of paddle.distribution and an initializer of paddle.nn
        *("Normal", "Uniform"),
    ]
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One file, parsed."""

    name: str  # its path below the root
    text: str
    tree: ast.Module

    @functools.cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree: one walk over them serves all measures."""
        return list(ast.walk(self.tree))

    @functools.cached_property
    def docstrings(self) -> dict[ast.AST, ast.Expr]:
        """Module, class or function -> the statement that is its docstring."""
        homes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        found = {}
        for node in self.nodes:
            if isinstance(node, homes) and node.body:
                first = node.body[0]
                constant = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
                if constant and isinstance(first.value.value, str):
                    found[node] = first
        return found

    @functools.cached_property
    def _tokens(self) -> tuple[list[tokenize.TokenInfo], list[tokenize.TokenInfo]]:
        """All tokens of code, and all comments, from one reading: it takes longer than parsing."""
        code: list[tokenize.TokenInfo] = []
        comments: list[tokenize.TokenInfo] = []
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type == tokenize.COMMENT:
                comments.append(token)
            elif token.type not in NO_CODE:
                code.append(token)
        return code, comments

    @functools.cached_property
    def tokens(self) -> list[tokenize.TokenInfo]:
        """All tokens of code: no comments, docstrings, line ends or indentation."""
        prose = {
            line
            for statement in self.docstrings.values()
            for line in range(statement.lineno, (statement.end_lineno or 0) + 1)
        }
        code, _ = self._tokens
        return [token for token in code if not (token.type == tokenize.STRING and token.start[0] in prose)]

    @functools.cached_property
    def code_lines(self) -> set[int]:
        """Numbers of the lines that hold code."""
        return {line for token in self.tokens for line in range(token.start[0], token.end[0] + 1)}

    @functools.cached_property
    def comments(self) -> list[tokenize.TokenInfo]:
        """Comments for a reader."""
        _, comments = self._tokens
        return [token for token in comments if not DIRECTIVE.match(token.string)]

    @functools.cached_property
    def functions(self) -> list[tuple[str, Function, int]]:
        """(Class.name, node, lines without docstring) of every function."""
        return list(self._functions_in(self.tree, ""))

    def _functions_in(self, node: ast.AST, prefix: str) -> Iterator[tuple[str, Function, int]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield prefix + child.name, child, self._length(child)
            scope = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            yield from self._functions_in(child, f"{prefix}{child.name}." if scope else prefix)

    def _length(self, node: Function) -> int:
        doc = self.docstrings.get(node)
        prose = (doc.end_lineno or 0) - doc.lineno + 1 if doc else 0
        return (node.end_lineno or 0) - node.lineno + 1 - prose


@functools.cache
def sources(
    root: pathlib.Path = ROOT, folders: tuple[str, ...] = tuple(HOMES.values())
) -> tuple[Source, ...]:
    """The files of these folders, parsed."""
    paths = [path for folder in folders for path in sorted((root / folder).rglob("*.py"))]
    texts = [path.read_text(encoding="utf8") for path in paths]
    return tuple(
        Source(str(path.relative_to(root)), text, ast.parse(text))
        for path, text in zip(paths, texts, strict=True)
    )


# ---------------------------------------------------------------------- places, each a line of text
def entries(root: pathlib.Path) -> list[str]:
    """Names of the files and folders at the top of fluidlite/, without what tools write and read."""
    tools = ("__pycache__", "py.typed", "__init__.pyi")
    return sorted(path.name for path in (root / "fluidlite").iterdir() if path.name not in tools)


def long_lines(files: Iterable[Source]) -> list[str]:
    """Lines of more than 110 columns, not counting what a comment for a tool adds at the end."""
    return [
        f"{file.name}:{number}"
        for file in files
        for number, line in enumerate(file.text.splitlines(), 1)
        if len(line) > COLUMNS and len(DIRECTIVE.sub("", line)) > COLUMNS
    ]


def long_functions(files: Iterable[Source]) -> list[str]:
    """Functions of more than 40 lines."""
    return [
        f"{file.name}:{name} {size}"
        for file in files
        for name, _, size in file.functions
        if size > FUNCTION_LINES
    ]


def long_files(files: Iterable[Source]) -> list[str]:
    """Files of more than 600 lines."""
    sizes = [(file.name, file.text.count("\n")) for file in files]
    return [f"{name} {size}" for name, size in sizes if size > FILE_LINES]


def nested_conditions(files: Iterable[Source]) -> list[str]:
    """Conditional expressions with another one inside."""
    return [
        f"{file.name}:{node.lineno}"
        for file in files
        for node in file.nodes
        if isinstance(node, ast.IfExp) and any(isinstance(inner, ast.IfExp) for inner in _below(node))
    ]


def _below(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes inside a node, those of a lambda's body left out: it is another thought."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.Lambda):
            yield child
            yield from _below(child)


def riddles(files: Iterable[Source]) -> list[str]:
    """Docstrings that begin with a question instead of a noun or a verb."""
    return [
        f"{file.name}:{statement.lineno} {statement.value.value.strip().splitlines()[0]}"  # type: ignore[attr-defined]
        for file in files
        for statement in file.docstrings.values()
        if _first_word(statement.value.value) in RIDDLES  # type: ignore[attr-defined]
    ]


def _first_word(text: str) -> str:
    return (text.split() or [""])[0].rstrip(",.:")


def undocumented(files: Iterable[Source]) -> list[str]:
    """Public functions without a docstring."""
    return [
        f"{file.name}:{name}"
        for file in files
        for name, node, _ in _public(file)
        if node not in file.docstrings
    ]


def _public(file: Source) -> list[tuple[str, Function, int]]:
    """Functions that can be reached by a name without an underscore; not those inside functions."""
    inside = {
        id(inner)
        for _, node, _ in file.functions
        for inner in ast.walk(node)
        if inner is not node and isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    return [
        item
        for item in file.functions
        if id(item[1]) not in inside and not any(part.startswith("_") for part in item[0].split("."))
    ]


def ambiguous_classes(files: Iterable[Source]) -> list[str]:
    """Class names that mean two or more things. The 2.x door has names of fluid's for their kin, as 2.x has;
    among themselves its names are held to the rule too.
    """
    homes: dict[str, list[str]] = collections.defaultdict(list)
    for file in files:
        for node in file.nodes:
            if isinstance(node, ast.ClassDef):
                homes[node.name.lstrip("_")].append(file.name)
    doors = {name: [place for place in places if DOOR in place] for name, places in homes.items()}
    return [
        f"{name} {' '.join(places)}"
        for name, places in sorted(homes.items())
        if len(places) - bool(doors[name]) > 1 and name not in FLUIDS_OWN
    ]


def lazy_imports(root: pathlib.Path) -> list[str]:
    """Imports of modules of the house inside functions."""
    return [f"{found.importer}:{found.line} {found.imported}" for found in imports(root) if found.lazy]


def copies(files: Iterable[Source]) -> list[str]:
    """Pairs of places that share thirty names in a row, about six lines."""
    return duplicates({file.name: (file.tokens, _import_lines(file)) for file in files})


def global_statements(files: Iterable[Source]) -> list[str]:
    """Functions that replace a variable of their module: its state is of no object, and ends with nothing."""
    return [
        f"{file.name}:{node.lineno} {', '.join(node.names)}"
        for file in files
        for node in file.nodes
        if isinstance(node, ast.Global)
    ]


def op_tables(files: Iterable[Source]) -> list[str]:
    """Constants that list op types outside of `fluidlite/ops`, with the number of types."""
    return tables_of_ops((file.name, file.tree) for file in files)


def _import_lines(file: Source) -> set[int]:
    nodes = [node for node in file.nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
    return {line for node in nodes for line in range(node.lineno, (node.end_lineno or 0) + 1)}


# ---------------------------------------------------------------------- shares
def sizes(files: Iterable[Source]) -> list[int]:
    """Lines of every function, sorted."""
    return sorted(size for file in files for _, _, size in file.functions)


def tokens_a_line(files: Iterable[Source]) -> float:
    return sum(len(file.tokens) for file in files) / sum(len(file.code_lines) for file in files)


def comment_density(files: Iterable[Source]) -> float:
    """Comments per 100 lines of code."""
    return 100 * sum(len(file.comments) for file in files) / sum(len(file.code_lines) for file in files)


def documented_share(files: Iterable[Source]) -> float:
    """Percent of the public functions that have a docstring."""
    public = sum(len(_public(file)) for file in files)
    return 100 * (1 - len(undocumented(files)) / public)


# ---------------------------------------------------------------------- the table
PLACES: dict[str, Callable[[pathlib.Path], list[str]]] = {
    "entries at the top of fluidlite/": entries,
    "circles of modules": lambda root: [" ".join(group) for group in circles(root)],
    "modules in circles": lambda root: list(itertools.chain(*circles(root))),
    "imports inside functions": lazy_imports,
    "lines over 110 columns": lambda root: long_lines(sources(root)),
    "functions over 40 lines": lambda root: long_functions(sources(root)),
    "files over 600 lines": lambda root: long_files(sources(root)),
    "nested conditional expressions": lambda root: nested_conditions(sources(root)),
    "docstrings that begin with a question": lambda root: riddles(sources(root)),
    "class names with two meanings": lambda root: ambiguous_classes(sources(root)),
    "copies of thirty names or more": lambda root: copies(sources(root)),
    "global statements": lambda root: global_statements(sources(root)),
    "tables of op types outside ops/": lambda root: op_tables(sources(root)),
}
FIGURES: dict[str, Callable[[pathlib.Path], float]] = {
    "modules": lambda root: len(sources(root)),
    "lines of code": lambda root: sum(len(file.code_lines) for file in sources(root)),
    "functions": lambda root: len(sizes(sources(root))),
    "lines of a function, median": lambda root: statistics.median(sizes(sources(root))),
    "lines of a function, 90 %": lambda root: statistics.quantiles(sizes(sources(root)), n=10)[-1],
    "tokens a line": lambda root: tokens_a_line(sources(root)),
    "public functions with a docstring, %": lambda root: documented_share(sources(root)),
    "comments per 100 lines of code": lambda root: comment_density(sources(root)),
}


def table(roots: list[pathlib.Path]) -> Iterator[str]:
    """A row a measure, a column a checkout."""
    counted = {name: functools.partial(_count, measure) for name, measure in PLACES.items()}
    for name, measure in {**FIGURES, **counted}.items():
        values = (f"{measure(root):.1f}".removesuffix(".0") for root in roots)
        yield name.ljust(40) + "".join(value.rjust(10) for value in values)


def _count(measure: Callable[[pathlib.Path], list[str]], root: pathlib.Path) -> float:
    return len(measure(root))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", type=pathlib.Path, metavar="PATH")
    parser.add_argument("--list", metavar="MEASURE", help="part of a measure's name")
    args = parser.parse_args()
    roots = [path.resolve() for path in args.paths] or [ROOT]
    if args.list is None:
        print("\n".join(table(roots)))
        return
    for name, measure in PLACES.items():
        if args.list in name:
            for root in roots:
                print("\n".join([f"{name}, {root}", *measure(root), ""]))


if __name__ == "__main__":
    main()
