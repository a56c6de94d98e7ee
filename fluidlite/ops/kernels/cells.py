"""Cells of recurrences, declared once as text: what a step does with one unit between matrix products.

    GRU = StepCell(
        "x_update x_reset x_candidate | before=0 origin_mode -> update reset kept candidate hidden",
        \'\'\'
        update = gate_activation(x_update)
        reset = gate_activation(x_reset)
        kept = reset * before
        candidate = activation(x_candidate)
        opened = where(origin_mode, before, candidate)
        closed = where(origin_mode, candidate, before)
        hidden = (opened - closed) * update + closed
        \'\'\',
    )

From the text come calls of an array module (`cell_calls`), compiled loops
(`executor/fast/loops/cell_lanes.py`: LLVM), kernels of a device (`executor/cuda/cell_text.py`: CUDA), and the
gradients of all three.

The signature
-------------
In front of the bar are values that a step has once, such as sums of products: a gradient cannot read them.
Behind it are those that it can read. `before=0` may be absent, and is that number then. A form may have a
number in place of each of them.

The text
--------
Each line gives a value a name. Functions are those of `scalar.FUNCTIONS`, `bounded(x, bound)` (x itself where
the bound is 0), and activations, by the names that a form gives them.

Gradients
---------
They are derived step by step from the last one to the first, by `differentiation.rules`; an activation's by
its slope. Each is a sum of products, of a factor that is known from the run forward, and the
gradient of a value that others hang on: those values are called its sources. A gradient reads what the text
has named in the signature, and computes anew what it has not.
"""

from __future__ import annotations

import ast
import functools
import textwrap
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from fluidlite.base.differentiation.rules import gradient_texts
from fluidlite.ops.kernels.activations import DECLARED, SLOPE
from fluidlite.ops.kernels.scalar import FUNCTIONS, Ref, called_by
from fluidlite.ops.kernels.scalar_steps import Operand, ScalarSteps

__all__ = ["CellBack", "CellForm", "CellSteps", "Layout", "CellStage", "StepCell", "gradient", "incoming"]


def gradient(name: str) -> str:
    """The name of a value's gradient."""
    return f"d_{name}"


def incoming(name: str) -> str:
    """The name of the part of an output's gradient that comes from what reads it outside of the step."""
    return f"g_{name}"


class CellSteps(NamedTuple):
    """Steps, and the values among them that have names."""

    steps: ScalarSteps
    values: Mapping[str, Operand]


class Layout:
    """How values of a cell lie in arrays, plane behind plane.

    The values that a step has once are sums: of the input, which has the first `entries` of these planes, of
    a bias of all, and of `products`, each with an output, which adds to a range of planes. The first product
    is that with the state before.
    """

    def __init__(
        self,
        products: Mapping[str, tuple[int, int]],
        entries: int,
        saved: Sequence[str] = (),
        alone: Mapping[str, str] = MappingProxyType({}),
        before: str = "hidden",
        sources: Sequence[str] = ("hidden",),
    ) -> None:
        self.entries = entries
        self.saved = saved
        """The values that take the place of the sums, for a gradient."""
        self.alone = alone
        """Other outputs: array -> value."""
        self.before = before
        """The output that is `before` one step later."""
        self.carries_cells = before == "cell"
        """Not the states go to the next step, but values of the cell's own."""
        self.sources = sources
        """The outputs of which others than the cell have gradients."""
        self.ranges = list(products.values())
        """Those of the products."""
        self.state = self.ranges[0]
        """The range of the product with the state before."""
        self.second = self.ranges[1] if len(self.ranges) > 1 else None
        """That of the product that waits for an output of the step."""
        self.between = list(products)[1] if len(products) > 1 else None
        """The output that it waits for."""


class StepCell:
    """A declared cell; its forms are what renderers take."""

    def __init__(self, signature: str, text: str, layout: Layout) -> None:
        self.layout = layout
        reads, _, writes = signature.partition("->")
        first, _, others = reads.partition("|")
        self.once = first.split()
        self.names = list(self.once)
        self.defaults: dict[str, float] = {}
        for word in others.split():
            name, _, number = word.partition("=")
            self.names.append(name)
            if number:
                self.defaults[name] = float(number)
        self.outputs = writes.split()
        self.lines = ast.parse(textwrap.dedent(text)).body

    @functools.lru_cache(256)  # noqa: B019 - cells are as lasting as the module that declares them
    def form(self, **given: str | float | None) -> CellForm:
        """The cell with activations by name, and numbers or nothing (None) in place of values."""
        return CellForm(self, given)


class CellStage(NamedTuple):
    """A part of a step: the sums that are there for it, and the outputs that it gives."""

    sums: list[str]
    outputs: list[str]


class CellForm:
    """The steps of a cell, for values that are given in one way."""

    def __init__(self, cell: StepCell, given: Mapping[str, str | float | None]) -> None:
        self.cell = cell
        self.given = given
        self.steps = ScalarSteps()
        values: dict[str, Operand] = {}
        for name in cell.names:
            number = given.get(name, name)
            values[name] = cell.defaults[name] if number is None else number
        self.known = [name for name in cell.names if values[name] == name and name not in cell.once]
        """The values that both directions read."""
        for line in cell.lines:
            assert isinstance(line, ast.Assign), ast.unparse(line)
            (target,) = line.targets
            values[ast.unparse(target)] = self._value(line.value, values)
        self.forward = CellSteps(self.steps, {name: values[name] for name in cell.outputs})
        """The outputs, from the values that are given."""
        self.stages = self._stages()

    @functools.cached_property
    def first(self) -> CellForm:
        """The form of the first step, where nothing is before."""
        return self.cell.form(**{**self.given, "before": None}) if "before" in self.known else self

    def _stages(self) -> list[CellStage]:
        """The parts of a step between its products."""
        second = self.cell.layout.second
        once, outputs = self.cell.once, self.cell.outputs
        if second is None:
            return [CellStage(once, outputs)]
        late = once[slice(*second)]
        waiting = [name for name in outputs if not self._reads(name).isdisjoint(late)]
        early = [name for name in outputs if name not in waiting]
        return [CellStage([name for name in once if name not in late], early), CellStage(late, waiting)]

    def _reads(self, output: str) -> set[Operand]:
        value = self.forward.values[output]
        nodes = [self.steps.nodes[index] for index in self.steps.needed_by([value])]
        return {value, *(operand for node in nodes for operand in node.operands)}

    def _value(self, tree: ast.expr, values: Mapping[str, Operand]) -> Operand:
        if isinstance(tree, ast.Name | ast.Constant):
            return self.steps.of_tree(tree, values)
        function, trees = called_by(tree)
        operands = [self._value(each, values) for each in trees]
        if function in FUNCTIONS:
            return self.steps.node(function, *operands)
        name = str(self.given.get(function, function))
        assert name in DECLARED, f"a cell calls {function!r}, which its form does not give"
        first, *bounds = operands
        # what leaves its operand as it is
        if name == "identity" or bounds == [0]:
            return first
        return self.steps.node(name, *operands)

    @functools.lru_cache(64)  # noqa: B019 - as lasting as its cell
    def back(self, is_flat: bool = False) -> CellBack:
        """The gradients of all values that are given, from those of the layout's sources.

        Sums with a value that is given once are sources, too, since their gradient is needed anyway. Where
        gradients are to be `flat`, they are not: more is known then before the first gradient is.
        """
        return CellBack(self, is_flat)


class CellBack:
    """Gradients of a form."""

    def __init__(self, form: CellForm, is_flat: bool) -> None:
        self.form = form
        self.wanted = (*form.cell.once, *form.known)
        self.given = form.cell.layout.sources
        self.steps = ScalarSteps()
        values = form.forward.values
        self.names: dict[Operand, str] = {}
        """The names under which a gradient reads steps of the run forward."""
        for name, value in values.items():
            self.names.setdefault(value, name)
        self.sources: dict[Operand, str] = {}
        if not is_flat:
            self._add_inner_sources()
        for name in self.given:
            self.sources[values[name]] = name
        self.factors: dict[Operand, dict[str, Operand]] = {}
        """For each value its sources, with the factors."""
        for index in reversed(range(len(form.steps.nodes))):
            self._back(Ref(index))

    def _add_inner_sources(self) -> None:
        """Make sources of sums with what is given once, and of what a bound follows."""
        nodes = self.form.steps.nodes
        read = [operand for node in nodes for operand in node.operands]
        once = [name for name in self.form.cell.once if read.count(name) == 1]
        for index, node in enumerate(nodes):
            first = node.operands[0]
            if node.function == "bounded" and isinstance(first, Ref):
                self.sources[first] = "unbounded"
            if node.function != "add":
                continue
            for name in once:
                if name in node.operands:
                    self.sources[Ref(index)] = name

    def _back(self, value: Ref) -> None:
        """Add the part of a step's operands in what hangs on its value."""
        own: dict[str, Operand] = self.factors.get(value, {})
        if value in self.sources:
            own = {self.sources[value]: 1.0}
        if not own:
            return
        operands = dict.fromkeys(self.form.steps.nodes[value.index].operands)
        for operand in operands:
            if isinstance(operand, Ref | str):
                self._add_parts(operand, own, self._slope(value, operand))

    def _add_parts(self, operand: Operand, own: Mapping[str, Operand], slope: Operand) -> None:
        parts = self.factors.setdefault(operand, {})
        for source, factor in own.items():
            part = self.steps.node("mul", factor, slope)
            total = parts.get(source, 0)
            parts[source] = self.steps.node("add", total, part)

    def _slope(self, value: Ref, operand: Operand) -> Operand:
        """The derivative of a step's value by an operand."""
        function, operands = self.form.steps.nodes[value.index].parts
        if function in DECLARED:
            result = self._known(value)
            return self.steps.node(SLOPE + function, result, *operands[1:])
        texts = gradient_texts(FUNCTIONS[function][0])
        total: Operand = 0
        for text, item in zip(texts, operands, strict=True):
            if item != operand:
                continue
            part = self.steps.of_text(text, self._needed(text, value))
            total = self.steps.node("add", total, part)
        return total

    def _needed(self, text: str, value: Ref) -> dict[str, Operand]:
        """The values of the names in a derivative, of which `g` is 1."""
        operands = self.form.steps.nodes[value.index].operands
        behind: dict[str, Operand] = dict(zip("xy", operands, strict=False))
        behind["out"] = value
        found: dict[str, Operand] = {"g": 1}
        for tree in ast.walk(ast.parse(text)):
            if isinstance(tree, ast.Name) and tree.id in behind:
                found[tree.id] = self._known(behind[tree.id])
        return found

    def _known(self, value: Operand) -> Operand:
        """A value of the run forward, where a gradient reads it."""
        if value in self.names:
            return self.names[value]
        if not isinstance(value, Ref):
            assert value not in self.form.cell.once, f"a gradient cannot read {value}"
            return value
        nodes = self.form.steps.nodes
        for index, node in enumerate(nodes):
            # where a bound has changed a value, its gradient is 0
            if node.function == "bounded" and node.operands[0] == value:
                return self._known(Ref(index))
        function, operands = nodes[value.index].parts
        return self.steps.node(function, *map(self._known, operands))

    def factors_of(self, name: str) -> Mapping[str, Operand]:
        """Source -> factor, for the gradient of a value that is given, or of a source."""
        if name in self.sources:
            return {self.sources[name]: 1.0}
        for value, source in self.sources.items():
            if source == name:
                return self.factors.get(value, {})
        return self.factors.get(name, {})

    def only_factor(self, name: str) -> tuple[str, Operand]:
        """Source and factor of a gradient that has one only."""
        (found,) = self.factors_of(name).items()
        return found

    def whole(self, *of: str) -> CellSteps:
        """The gradients of what is wanted, from those of outputs, of all or of some, step by step."""
        given = of or self.given
        steps = self.steps.copy()
        found: dict[str, Operand] = {}
        # what comes later in the run forward has its gradient first
        for value in sorted(self.sources, key=_position, reverse=True):
            name = self.sources[value]
            found[name] = incoming(name) if name in given else 0
            found[name] = self._total(steps, name, found)
        for name in self.wanted:
            if name not in found:
                found[name] = self._total(steps, name, found)
        return CellSteps(steps, {gradient(name): value for name, value in found.items()})

    def _total(self, steps: ScalarSteps, name: str, found: Mapping[str, Operand]) -> Operand:
        """The gradient of a value: what is there of it, and its parts in its sources'."""
        total = found.get(name, 0)
        for source, factor in self.factors_of(name).items():
            part = steps.node("mul", factor, found[source])
            total = steps.node("add", total, part)
        return total


def _position(value: Operand) -> int:
    return value.index if isinstance(value, Ref) else -1
