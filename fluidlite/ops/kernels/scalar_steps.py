"""Scalar arithmetic as steps, none of them twice, and without those that constants make needless."""

from __future__ import annotations

import ast
import functools
from collections.abc import Container, Iterable, Mapping
from typing import TypeAlias

from fluidlite.ops.kernels.scalar import ExprNode, Ref, called_by, folded

__all__ = ["Operand", "ScalarSteps", "steps_of_text"]

Operand: TypeAlias = "Ref | str | float | int | bool"
"""A step, a name, or a constant."""


class ScalarSteps:
    """Steps in an order in which each comes behind what it reads; the names that they read are given."""

    def __init__(self) -> None:
        self.nodes: list[ExprNode] = []
        self.known: dict[ExprNode, int] = {}

    def copy(self) -> ScalarSteps:
        """The same steps, to which others may be added."""
        made = ScalarSteps()
        made.nodes = list(self.nodes)
        made.known = dict(self.known)
        return made

    def of_text(self, text: str, names: Mapping[str, Operand]) -> Operand:
        """The value of an expression."""
        return self.of_tree(ast.parse(text, mode="eval").body, names)

    def of_tree(self, tree: ast.expr, names: Mapping[str, Operand]) -> Operand:
        """The value of an expression that is parsed; KeyError for a name that is not there."""
        if isinstance(tree, ast.Name):
            return names[tree.id]
        if isinstance(tree, ast.Constant):
            assert isinstance(tree.value, int | float)
            return tree.value
        function, trees = called_by(tree)
        return self.node(function, *(self.of_tree(each, names) for each in trees))

    def node(self, function: str, *operands: Operand) -> Operand:
        """The value of a function: a step, or an operand or number that it need not be computed for."""
        simple = _simplified(self, function, operands)
        if simple is not None:
            return simple
        made = ExprNode(function, operands)
        # what is written twice is computed once
        index = self.known.setdefault(made, len(self.nodes))
        if index == len(self.nodes):
            self.nodes.append(made)
        return Ref(index)

    def negated(self, operand: Operand) -> Operand | None:
        """The value whose negative an operand is; None where it is not one."""
        if not isinstance(operand, Ref):
            return None
        node = self.nodes[operand.index]
        return node.operands[0] if node.function == "neg" else None

    def needed_by(self, values: Iterable[Operand], known: Container[Operand] = ()) -> list[int]:
        """The steps behind some values, these among them, in order; not those that are known, and what only
        they need.
        """
        found: set[int] = set()
        left = list(values)
        while left:
            value = left.pop()
            if isinstance(value, Ref) and value not in known and value.index not in found:
                found.add(value.index)
                left += self.nodes[value.index].operands
        return sorted(found)


def _simplified(steps: ScalarSteps, function: str, operands: tuple[Operand, ...]) -> Operand | None:
    """The value of a function that needs no step of its own; None where it does."""
    constant: Operand | None = folded(function, operands)
    if constant is not None:
        return constant
    if function == "where" and isinstance(operands[0], bool | int):
        return operands[1] if operands[0] else operands[2]
    if function == "mul" and 0 in operands:
        # the other one is a factor of what is absent
        return 0.0
    if function == "mul" and -1 in operands:
        (other,) = (item for item in operands if item != -1)
        return steps.node("neg", other)
    return _without_signs(steps, function, operands)


def _without_signs(steps: ScalarSteps, function: str, operands: tuple[Operand, ...]) -> Operand | None:
    """A sum or difference of negatives as a difference or sum."""
    if function == "neg":
        return steps.negated(operands[0])
    if function == "sub" and operands[0] == 0:
        return steps.node("neg", operands[1])
    if function not in ("add", "sub"):
        return None
    first, second = operands
    behind = steps.negated(second)
    if behind is not None:
        return steps.node("sub" if function == "add" else "add", first, behind)
    before = steps.negated(first)
    if before is not None and function == "add":
        return steps.node("sub", second, before)
    return None


@functools.cache
def steps_of_text(text: str, **names: Operand) -> tuple[ScalarSteps, Operand]:
    """The steps of an expression, in which names stand for operands, and its value."""
    steps = ScalarSteps()
    return steps, steps.of_text(text, names)
