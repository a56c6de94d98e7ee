"""Tables of op types outside of `fluidlite/ops`: an op's facts stand at the op, as fields of `Op`.

A table is a literal with two op types or more, at least half of its entries, that is a constant of a module
or class, or that something is looked for in (`op.type in ("feed", "fetch")`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from fluidlite.base.families import families, stems

__all__ = ["tables_of_ops"]


# files with names that only look like op types, and what they are
_ACTIVATIONS = "activations, as attributes and users name them"
_OTHER_NAMES = {
    "executor/cuda/recurrences.py": _ACTIVATIONS,
    "executor/compile/scalars.py": "functions in expressions of scalars",
    "executor/cuda/rows.py": "kernels in CUDA C",
    "executor/fast/loops/arithmetic.py": "functions in expressions of scalars",
    "executor/plan/steps.py": "functions of NumPy",
    "executor/run/row_lines.py": "functions in expressions of scalars",
    "fluidlite/base/differentiation/": "functions of NumPy",
    "fluidlite/layers/recurrence/recurrent.py": _ACTIVATIONS,
    "fluidlite/paddle/geometric.py": "reductions, as users name them",
    "fluidlite/paddle/incubate/": "reductions, as users name them",
    "fluidlite/paddle/nn/": "activations and reductions, as users name them",
    "fluidlite/paddle/tensor/": "functions of 2.x",
    "fluidlite/paddle/sparse/": "functions of 2.x that are refused",
    "fluidlite/paddle/static/nn/": "functions of 2.x",
    "fluidlite/saving/onnx/loading/rules/recurrent.py": _ACTIVATIONS,
    "fluidlite/saving/onnx/rules/recurrent.py": _ACTIVATIONS,
    "fluidlite/saving/onnx/rules/scalars.py": "functions in expressions of scalars",
}
# written by op_index.py
_INDEXES = ("fluidlite/base/op_index.py", "executor/compile/rule_index.py")
_NO_TABLES = ("fluidlite/ops/", *_INDEXES, *_OTHER_NAMES)


def tables_of_ops(files: Iterable[tuple[str, ast.Module]]) -> list[str]:
    """FILE:LINE NAME COUNT of every table; `files` are names below the root, with their trees."""
    return [
        f"{name}:{line} {table} {count}"
        for name, tree in files
        if not name.startswith(_NO_TABLES)
        for line, table, value in _literals(tree)
        if (count := _op_types(value)) > 1
    ]


def _literals(tree: ast.Module) -> Iterator[tuple[int, str, ast.expr]]:
    """Line, name and value of constants, and of what stands behind `in`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            for operator, value in zip(node.ops, node.comparators, strict=True):
                if isinstance(operator, ast.In | ast.NotIn):
                    yield node.lineno, "in", value
        elif isinstance(node, ast.Module | ast.ClassDef):
            for statement in node.body:
                yield from _constant(statement)


def _constant(statement: ast.stmt) -> Iterator[tuple[int, str, ast.expr]]:
    if isinstance(statement, ast.Assign):
        target: ast.expr = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return
    # several names get a function each; `__all__` has names of functions
    if statement.value is not None and isinstance(target, ast.Name) and target.id != "__all__":
        yield statement.lineno, target.id, statement.value


def _op_types(value: ast.expr) -> int:
    """The number of op types in a literal, 0 if fewer than half of its entries are: of a dict, keys are
    entries, or values, such as reason -> names.
    """
    if isinstance(value, ast.Dict):
        parts = [[key for key in value.keys if key is not None], value.values]
    else:
        parts = [[value]]
    counts = [0]
    for nodes in parts:
        words = [word for node in nodes for word in _words(node)]
        found = {word for word in words if any(stem in families() for stem in stems(word))}
        counts.append(len(found) if 2 * len(found) >= len(set(words)) else 0)
    return max(counts)


def _words(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield from inner.value.split()
