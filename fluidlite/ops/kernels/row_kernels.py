"""Kernels over the rows of a matrix, declared once as text.

    softmax_rows = RowKernel(
        "softmax",
        "x[rc] lowest -> out[rc]",
        '''
        top = max(x)
        out = exp(maximum(x - top, lowest))
        out = out * (1 / sum(out))
        ''',
    )
    by_rows(softmax, softmax_rows, last_axis, lowest=-64.0)

From the text come the portable kernel (`row_calls`: calls of an array module), the kernel of plans on the
host (`executor/run/row_lines.py`: NumPy calls into buffers, block by block), its compiled form
(`executor/fast/loops/rows.py`: LLVM) and the kernels of a device (`executor/cuda/row_text.py`: CUDA).

The signature
-------------
Arrays have a letter for each axis, numbers have none; `x` stands for the op's slot X, `dout` for Out@GRAD.
The letters `columns` run along a row, the others over the rows. One array at least has all letters, in the
order in which its elements lie: rows before columns. Channels are the rows of a kernel of three letters whose
`columns` are the first and the last one, as in x[ncp] with columns "np"; there may be a single place `p`.

    x[rc]               an array
    bias[c]=0           one that may be absent, and is that number then
    label[r]:ignored    int64 labels: each is a column, or the number `ignored`
    epsilon             a number: an attribute of the op, or a constant given to `by_rows`

The text
--------
Each line gives a value a name, or an output a value. Functions are those of `scalar.FUNCTIONS`, and

    sum(v), mean(v), max(v)    of each row; NaN counts as the largest number
    variance(v)                the mean square of what v is away from its mean
    total(v)                   the sum along all axes that the output it is given to lacks
    v[label]                   the element of each row at its label; on a device NaN where that is no column
    out[label] = v             the output with another element there

In rows whose label is `ignored`, column 0 stands for it, and the outputs that are `cleared` are 0 in the end,
also if the row is NaN; no other output is made of them.

What renderers may rely on
--------------------------
A form holds nodes in an order in which each comes behind what it reads, and no node twice.

A value varies along the axes of what it is made of (`axes`); reductions and elements at labels along those of
rows. So a value either is a number of a row, or varies along it.

`depth` is the number of sweeps along a row that must be over before a value is known: a reduction, and an
element at a label, are one deeper than what they read; all else is as deep as the deepest that it reads.

An output gets its values one after the other. None of them is read after the next one is there, so that all
can lie in the array of the output. The last one is the result.

`total` is the last thing that is done to a value, and what it adds up needs no reduction.

Only kernels over channels have nodes "variance": of a value, and of its mean, which renderers may find in the
same sweep. In others it is written out. Where ranks share the rows of such a kernel, means and variances are
those over all ranks, and sums those of each.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
import textwrap
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from fluidlite.base.gradient_names import GRAD_SUFFIX
from fluidlite.base.records import dataclass
from fluidlite.base.registry import Op
from fluidlite.ops.kernels.scalar import Ref, called_by, folded

__all__ = [
    "NUMBER",
    "REDUCTIONS",
    "RowArray",
    "RowForm",
    "RowKernel",
    "RowNode",
    "RowOperand",
    "RowStore",
    "RowUse",
    "by_rows",
    "last_axis",
    "spelled",
]

REDUCTIONS = ("sum", "mean", "max", "variance")
NUMBER = "#"
"""In place of axes: an array of which every element is one number, which is given as such."""

RowOperand: TypeAlias = "Ref | str | float | int | bool"
"""A node, the name of a number, or a constant."""
SizesRule: TypeAlias = "Callable[[Sequence[int], Callable[[str], Any]], Sequence[int] | None]"


class RowArray(NamedTuple):
    """An array of a signature."""

    name: str
    axes: str
    default: float | None = None
    """The number that it is where it is absent; None where it must be there."""
    ignored: str = ""
    """Of labels: the number that stands for no column."""


@dataclass(frozen=True)
class RowNode:
    """One step of a kernel: a function of operands, whose result varies along `axes`.

    Beside scalar functions: "load" (an array), reductions, "total", "pick" (a value, a label) and "put" (a
    value, a label, the element to be there).
    """

    function: str
    operands: tuple[RowOperand, ...]
    axes: str
    depth: int


class RowStore(NamedTuple):
    """A value that an output has, for good or for a time."""

    output: str
    value: RowOperand
    is_last: bool


class RowKernel:
    """A declared kernel; its forms are what renderers take."""

    def __init__(
        self, name: str, signature: str, text: str, columns: str = "c", cleared: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.columns = columns
        self.cleared = frozenset(cleared)
        reads, _, writes = signature.partition("->")
        self.reads = [_array(word) for word in reads.split() if "[" in word]
        self.writes = [_array(word) for word in writes.split()]
        self.read_names = [array.name for array in self.reads]
        self.numbers = [word for word in reads.split() if "[" not in word]
        self.arrays = {array.name: array for array in (*self.reads, *self.writes)}
        self.labels = [array for array in self.reads if array.ignored]
        self.axes = max((array.axes for array in self.arrays.values()), key=len)
        self.rows = "".join(axis for axis in self.axes if axis not in columns)
        self.is_of_channels = len(self.axes) == 3 and columns == self.axes[::2]
        if not self.is_of_channels and not self.axes.endswith(columns):
            raise ValueError(f"row kernel {name!r}: the elements of a row do not lie behind each other")
        self.lines = ast.parse(textwrap.dedent(text)).body
        self.labelled = {
            tree.value.id
            for tree in ast.walk(ast.Module(self.lines, []))
            if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Name)
        }
        """The values of which elements at labels are read or written: outputs among them must be there."""
        self.form()  # a mistake in the text shows when it is declared

    @functools.lru_cache(256)  # noqa: B019 - kernels are as lasting as the module that declares them
    def _form(self, given: tuple[tuple[str, str | None], ...]) -> RowForm:
        return RowForm(self, dict(given))

    def form(self, **given: str | None) -> RowForm:
        """The kernel where some arrays are given otherwise than declared: absent (None), as an array of one
        number (""), or as a number (`NUMBER`).
        """
        return self._form(tuple(sorted(given.items())))


def _array(word: str) -> RowArray:
    name, _, rest = word.partition("[")
    axes, _, rest = rest.partition("]")
    default = float(rest[1:]) if rest.startswith("=") else None
    return RowArray(name, axes, default, rest[1:] if rest.startswith(":") else "")


class RowUse(NamedTuple):
    """How plans run an op by a row kernel."""

    kernel: RowKernel
    slots: Mapping[str, str]
    """Array -> slot."""
    sizes: SizesRule
    only: Mapping[str, Any]
    """The attributes with which the op is what the kernel computes."""
    constants: Mapping[str, float]
    """The numbers that are no attributes."""


def by_rows(
    op: Op, kernel: RowKernel, sizes: SizesRule, only: Mapping[str, Any] | None = None, **constants: float
) -> None:
    """Let plans run an op by a row kernel, whose arrays stand for the slots of their names.

    `sizes` gives the sizes of the axes for the shape of the first array with all axes, and the attributes;
    None where the elements of a row do not lie behind each other, so that the portable kernel has to do. The
    kernel computes what the op is with the attributes `only`. `constants` are numbers that are no attributes.
    """
    named = {spelled(slot): slot for slot in (*op.inputs, *op.outputs)}
    slots = {name: named[name] for name in kernel.arrays if name in named}
    op.by_rows = RowUse(kernel, slots, sizes, only or {}, constants)


def spelled(slot: str) -> str:
    """The name of a slot in a text: `dout` for Out@GRAD."""
    stem = slot.replace(GRAD_SUFFIX, "")
    return "d" * slot.count(GRAD_SUFFIX) + stem.lower()


def last_axis(shape: Sequence[int], attr: Callable[[str], Any]) -> Sequence[int] | None:
    """Rows along the last dimension, if the attribute `axis` names that."""
    is_last = shape and attr("axis") in (-1, len(shape) - 1)
    return (math.prod(shape[:-1]), shape[-1]) if is_last else None


class RowForm:
    """The steps of a kernel for arrays that are given in one way, without those that no output needs."""

    def __init__(self, kernel: RowKernel, given: Mapping[str, str | None]) -> None:
        self.kernel = kernel
        self.given = given
        known = {name: given.get(name, array.axes) for name, array in kernel.arrays.items()}
        self.axes: dict[str, str] = {
            name: axes for name, axes in known.items() if axes is not None and axes != NUMBER
        }
        """The arrays that are there, in the order in which kernels are called with them."""
        self.numbers: list[str] = [*kernel.numbers, *(array.ignored for array in kernel.labels)]
        self.numbers += [name for name, axes in known.items() if axes == NUMBER]
        written = _StepReader(kernel, known)
        self.nodes: list[RowNode] = written.nodes
        """All that the text says, also for outputs that are absent."""
        self.stores: list[RowStore] = []
        """The values of outputs that are there; on the way to the last one those that something reads."""
        self._keep(written.stores)
        self._check()
        self.live = self._live()
        """The nodes that outputs need, in order."""

    def _keep(self, stores: Sequence[RowStore]) -> None:
        present = [store for store in stores if store.output in self.axes]
        last = {store.output: position for position, store in enumerate(present)}
        needed = set(self.needed_by(present[position].value for position in last.values()))
        for position, store in enumerate(present):
            value = store.value
            is_last = last[store.output] == position
            # the value of an array that is read lies there
            is_read = isinstance(value, Ref) and value.index in needed and not self._is_array(value)
            if is_last or is_read:
                self.stores.append(store._replace(is_last=is_last))

    def _check(self) -> None:
        """ValueError for what renderers cannot do."""
        for output in self.outputs:
            self._check_output(output)
        if len(self.kernel.labels) > 1:
            raise self._mistake("more than one array of labels")
        stored = {store.value for store in self.stores}
        for node in self.nodes:
            first = node.operands[0]
            if node.function == "total" and self.depth_of(first):
                raise self._mistake("a total needs a reduction first")
            if node.function in ("pick", "put") and not (self._is_array(first) or first in stored):
                raise self._mistake("an element at a label of what is neither an array nor an output")

    def _check_output(self, output: str) -> None:
        values = [store.value for store in self.stores if store.output == output]
        if not values:
            raise self._mistake(f"{output!r} gets no value")
        if not self.is_total(values[-1]) and self.axes_of(values[-1]) != self.axes[output]:
            raise self._mistake(f"{output!r} has the axes [{self.axes[output]}], its value others")
        indices = [value.index for value in values if isinstance(value, Ref)]
        for old, new in itertools.pairwise(indices):
            if any(Ref(old) in node.operands for node in self.nodes[new + 1 :]):
                raise self._mistake(f"{output!r} is read after it has another value")
        others = self.needed_by(
            store.value for store in self.stores if store.is_last and store.output != output
        )
        if output in self.cleared and set(indices) & set(others):
            raise self._mistake(f"{output!r} is cleared, and another output is made of it")

    def _mistake(self, text: str) -> ValueError:
        return ValueError(f"row kernel {self.kernel.name!r}: {text}")

    @property
    def outputs(self) -> list[str]:
        """The outputs that are there."""
        return [array.name for array in self.kernel.writes if array.name in self.axes]

    @property
    def inputs(self) -> list[str]:
        """The inputs that are there."""
        return [array.name for array in self.kernel.reads if array.name in self.axes]

    @property
    def cleared(self) -> list[str]:
        """The outputs that are 0 in rows whose label is to be ignored."""
        return [name for name in self.outputs if name in self.kernel.cleared]

    @property
    def labels(self) -> list[RowArray]:
        """The labels that the form reads."""
        return [array for array in self.kernel.labels if array.name in self.axes]

    @property
    def totals(self) -> list[str]:
        """The outputs that are sums over rows."""
        return [store.output for store in self.stores if self.is_total(store.value)]

    def _is_array(self, value: RowOperand) -> bool:
        return isinstance(value, Ref) and self.nodes[value.index].function == "load"

    def is_total(self, value: RowOperand) -> bool:
        """True for a sum over rows."""
        return isinstance(value, Ref) and self.nodes[value.index].function == "total"

    def typed(self, numbers: Iterable[Any]) -> list[Any]:
        """The values of the form's numbers: labels are whole, others floating point."""
        ignored = {label.ignored for label in self.kernel.labels}
        return [
            int(value) if name in ignored else float(value)
            for name, value in zip(self.numbers, numbers, strict=True)
        ]

    def with_axes(self, **given: str | None) -> RowForm:
        """The form where some more arrays are given otherwise."""
        return self.kernel.form(**{**self.given, **given})

    def axes_of(self, value: RowOperand) -> str:
        """The axes along which a value varies."""
        return self.nodes[value.index].axes if isinstance(value, Ref) else ""

    def is_of_row(self, value: RowOperand) -> bool:
        """True for a number of a row, or of all."""
        return not set(self.axes_of(value)) & set(self.kernel.columns)

    def depth_of(self, value: RowOperand) -> int:
        """The sweeps that must be over before a value is known."""
        return self.nodes[value.index].depth if isinstance(value, Ref) else 0

    def last(self, output: str) -> RowOperand:
        """The value of an output in the end."""
        return next(store.value for store in self.stores if store.output == output and store.is_last)

    def needed_by(self, values: Iterable[RowOperand], known: Container[int] = ()) -> list[int]:
        """The nodes behind some values, these among them, in order; not those that are known, and what only
        they need.
        """
        found: set[int] = set()
        left = [value.index for value in values if isinstance(value, Ref)]
        while left:
            index = left.pop()
            if index not in found and index not in known:
                found.add(index)
                left += [item.index for item in self.nodes[index].operands if isinstance(item, Ref)]
        return sorted(found)

    def _live(self) -> list[int]:
        return self.needed_by(store.value for store in self.stores)


class _StepReader:
    """The nodes of a text, made line by line."""

    def __init__(self, kernel: RowKernel, axes: Mapping[str, str | None]) -> None:
        self.kernel = kernel
        self.axes = axes
        self.nodes: list[RowNode] = []
        self.stores: list[RowStore] = []
        self.known: dict[str, RowOperand] = {}
        for line in kernel.lines:
            if not isinstance(line, ast.Assign) or len(line.targets) != 1:
                raise self._mistake(line)
            self._assign(line.targets[0], line.value)

    def _mistake(self, tree: ast.AST) -> ValueError:
        return ValueError(f"row kernel {self.kernel.name!r}: not a step over rows: {ast.unparse(tree)}")

    def _assign(self, target: ast.expr, text: ast.expr) -> None:
        value = self._value(text)
        if isinstance(target, ast.Subscript):
            name, label = self._place(target)
            value = self._node("put", (self.known[name], label, value))
        elif isinstance(target, ast.Name):
            name = target.id
        else:
            raise self._mistake(target)
        self.known[name] = value
        if any(array.name == name for array in self.kernel.writes):
            self.stores.append(RowStore(name, value, False))

    def _place(self, tree: ast.Subscript) -> tuple[str, str]:
        if not isinstance(tree.value, ast.Name) or not isinstance(tree.slice, ast.Name):
            raise self._mistake(tree)
        return tree.value.id, tree.slice.id

    def _value(self, tree: ast.expr) -> RowOperand:
        if isinstance(tree, ast.Name):
            return self._named(tree.id)
        if isinstance(tree, ast.Constant):
            number: Any = tree.value
            return float(number)
        if isinstance(tree, ast.Subscript):
            name, label = self._place(tree)
            return self._node("pick", (self._named(name), label))
        function, trees = called_by(tree)
        operands = tuple(map(self._value, trees))
        return self._variance(*operands) if function == "variance" else self._node(function, operands)

    def _variance(self, value: RowOperand) -> RowOperand:
        mean = self._node("mean", (value,))
        if self.kernel.is_of_channels:
            return self._node("variance", (value, mean))
        return self._node("mean", (self._node("square", (self._node("sub", (value, mean)),)),))

    def _named(self, name: str) -> RowOperand:
        if name in self.known:
            return self.known[name]
        if name in self.kernel.numbers or self.axes.get(name) == NUMBER:
            return name
        array = self.kernel.arrays.get(name)
        if array is None or array in self.kernel.writes:
            raise ValueError(f"row kernel {self.kernel.name!r}: {name!r} has no value")
        if self.axes[name] is None:
            if array.default is None:
                raise ValueError(f"row kernel {self.kernel.name!r}: {name!r} must be there")
            return array.default
        return self._node("load", (name,))

    def _node(self, function: str, operands: tuple[RowOperand, ...]) -> RowOperand:
        constant = folded(function, operands)
        if constant is not None:
            return constant
        node = RowNode(function, operands, self._axes(function, operands), self._depth(function, operands))
        # what is written twice is computed once
        if node in self.nodes:
            return Ref(self.nodes.index(node))
        self.nodes.append(node)
        return Ref(len(self.nodes) - 1)

    def _axes(self, function: str, operands: tuple[RowOperand, ...]) -> str:
        if function == "load":
            found = self.axes[str(operands[0])]
            assert found is not None
            return found
        if function in REDUCTIONS or function == "pick":
            return self.kernel.rows
        met = set().union(*(self.nodes[item.index].axes for item in operands if isinstance(item, Ref)))
        return "".join(axis for axis in self.kernel.axes if axis in met)

    def _depth(self, function: str, operands: tuple[RowOperand, ...]) -> int:
        depths = [self.nodes[item.index].depth for item in operands if isinstance(item, Ref)]
        depth = max(depths, default=0)
        if function in ("pick", "put"):
            assert isinstance(operands[0], Ref)
            source = self.nodes[operands[0].index]
            # what is stored has to be there
            return max(depth, source.depth + (source.function != "load"))
        # a variance is as deep as its mean, which is found with it
        return depth + (function in REDUCTIONS and function != "variance")
