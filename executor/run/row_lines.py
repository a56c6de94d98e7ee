"""Row kernels as the text of a function of NumPy calls: where each value is computed, and in which array."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Any

import numpy as np

from fluidlite.ops.kernels.row_kernels import REDUCTIONS, RowForm, RowNode, RowOperand
from fluidlite.ops.kernels.scalar import FUNCTIONS, PREDICATES, Ref, erf

__all__ = ["BlockText", "block_text"]

_PARTS = ("head", "block", "tail")
# over a few columns a product with ones is three times as fast as `add.reduce`
_SUMS = {"sum": "ones", "mean": "shares"}
_CALLS = {
    "max": "largest({0}, axis=1, keepdims=True, out={out})",
    "square": "multiply({0}, {0}, out={out})",
    # functions without `out`
    "where": "{out}[...] = where({0}, {1}, {2})",
    "erf": "{out}[...] = erf({0})",
}
"""Function -> its call, where that is not NumPy's function of the operands."""


@functools.cache
def block_text(form: RowForm, is_one: bool) -> BlockText:
    """The text of a form, which is made once: for all rows at once, or for blocks of them."""
    return BlockText(form, is_one)


class _Uses:
    """The nodes that read each node of a form, and the outputs whose values nodes are."""

    def __init__(self, form: RowForm) -> None:
        self.form = form
        self.versions: dict[int, str] = {}
        """Node -> the output whose value it is."""
        for store in form.stores:
            if isinstance(store.value, Ref) and not form.is_total(store.value):
                self.versions.setdefault(store.value.index, store.output)
        self.readers: dict[int, set[int]] = {index: set() for index in form.live}
        for index in form.live:
            for operand in self.read_by(index):
                self.readers[operand].add(index)
        pairs = [(index, self._change(index)) for index in form.live]
        self.changes = {index: by for index, by in pairs if by is not None}
        """The nodes that put `v[label] - w` or `v[label] + w` into v -> that difference or sum, where nothing
        else reads it: such an element changes in place.
        """

    def read_by(self, index: int) -> list[int]:
        """The nodes that a node reads."""
        return [item.index for item in self.form.nodes[index].operands if isinstance(item, Ref)]

    def _change(self, index: int) -> int | None:
        put = self.form.nodes[index]
        by = put.operands[2] if put.function == "put" else None
        if not isinstance(by, Ref) or self.form.nodes[by.index].function not in ("add", "sub"):
            return None
        first = self.form.nodes[by.index].operands[0]
        if not isinstance(first, Ref) or self.form.nodes[first.index].operands != put.operands[:2]:
            return None
        is_alone = self.readers[by.index] == {index} and self.readers[first.index] == {by.index}
        return by.index if is_alone else None

    def parts(self) -> dict[int, str]:
        """The part of the function that computes each node.

        The head computes the numbers of all rows that need nothing along a row, the tail what nothing along a
        row needs: fewer calls than block by block.
        """
        head = self._head()
        tail = self._tail(head)
        rest = {index: "tail" if index in tail else "block" for index in self.form.live}
        return {**rest, **dict.fromkeys(head, "head")}

    def _head(self) -> set[int]:
        found: set[int] = set()
        for index in self.form.live:
            function = self.form.nodes[index].function
            # a reduction is made while its rows are in the cache
            is_small = self.form.is_of_row(Ref(index)) and function not in REDUCTIONS
            if function == "load" or (is_small and found.issuperset(self.read_by(index))):
                found.add(index)
        return found

    def _tail(self, head: set[int]) -> set[int]:
        """All that can be there, but what others before it read, or what reads a number of a block."""
        allowed = ("pick", "put", *FUNCTIONS)
        found = {
            index
            for index in self.form.live
            if index not in head
            and self.form.nodes[index].function in allowed
            and (self.form.is_of_row(Ref(index)) or self.form.nodes[index].function == "put")
        }
        while True:
            there = head | found
            kept = {
                index
                for index in found
                if self.readers[index] <= found
                and all(item in there or self._stays(item, found) for item in self.read_by(index))
            }
            if kept == found:
                return found
            found = kept

    def _stays(self, index: int, tail: set[int]) -> bool:
        """True if an output still has the value of a node when all blocks are over."""
        output = self.versions.get(index)
        later = {other for other, name in self.versions.items() if name == output and other > index}
        return output is not None and later <= tail


class BlockText:
    """The lines of a form's function of the arrays: a head, a function of one block, and a tail; where all
    rows are one block, the head is all of it.

    A value of an output lies in the array of that. Another one takes the array of an operand that it is the
    last to read, an output's in which nothing is left to be read before the output's next value, or scratch:
    an array holds one value at a time.

    Arrays of rows have the shape [rows, 1]. Labels are given as the indices of the labelled elements in a
    flattened matrix, [rows, 1] too.
    """

    def __init__(self, form: RowForm, is_one: bool) -> None:
        self.form = form
        self.is_one = is_one
        self.own: dict[str, str] = {}
        """Name -> axes of the arrays for a block, which each member of a team has."""
        self.whole: dict[str, str] = {}
        """The same for those of all rows."""
        self.shared: dict[str, str] = {}
        """A thing that all read -> its name: numbers by their names or as text, and vectors of ones."""
        self.lines: dict[str, list[str]] = {part: [] for part in _PARTS}
        self.held: dict[int, str] = {}
        """Node -> the name of its array."""
        self.free = [name for name in form.outputs if name not in form.totals]
        self.uses = _Uses(form)
        self.parts = dict.fromkeys(form.live, "head") if is_one else self.uses.parts()
        order = sorted(form.live, key=lambda index: (_PARTS.index(self.parts[index]), index))
        self.ends = self._ends(order)
        """Node -> the position in that order at which it is read for the last time."""
        self.gets: dict[str, list[int]] = {}
        """Output -> the positions at which it gets a value."""
        for position, index in enumerate(order):
            if index in self.uses.versions:
                self.gets.setdefault(self.uses.versions[index], []).append(position)
        for position, index in enumerate(order):
            self._add(position, index)
        self._copy_others()

    def _ends(self, order: Sequence[int]) -> dict[int, int]:
        found: dict[int, int] = {}
        positions = {index: position for position, index in enumerate(order)}
        inlined = {by: index for index, by in self.uses.changes.items()}
        for position, index in enumerate(order):
            # what changes an element is read there
            at = positions[inlined[index]] if index in inlined else position
            for operand in self.uses.read_by(index):
                found[operand] = max(at, found.get(operand, 0))
        results = [self.form.last(output) for output in self.form.outputs]
        return found | {value.index: len(order) for value in results if isinstance(value, Ref)}

    @functools.cached_property
    def functions(self) -> dict[str, Any]:
        """The functions that the text calls."""
        used = {FUNCTIONS[node.function][0] for node in self.form.nodes if node.function in FUNCTIONS}
        names = (*used - {"erf"}, "add", "copyto", "dot", "multiply", "reciprocal")
        found: dict[str, Any] = {name: getattr(np, name) for name in names}
        return {
            **found,
            "erf": functools.partial(erf, np),
            "largest": np.maximum.reduce,
            "over_members": np.add.reduce,
        }

    @functools.cached_property
    def code(self) -> CodeType:
        """The function `run`, whose arrays beside those of the form are global names."""
        return compile(self.source(), f"<fluidlite rows of {self.form.kernel.name}>", "exec")

    def source(self) -> str:
        """Its text."""
        totals = [] if self.is_one else self.form.totals
        lines = [f"sums_{name}.fill(0)" for name in totals] + self.lines["head"]
        if self.lines["block"]:
            lines += ["def block(member, rows):", *_indented(self._block()), "blocks(block)"]
        lines += self.lines["tail"]
        lines += [f"over_members(sums_{name}, axis=0, out={name})" for name in totals]
        names = ", ".join([*self.form.inputs, *self.form.outputs])
        return "\n".join([f"def run({names}):", *_indented(lines), ""])

    def _block(self) -> list[str]:
        """The lines for one block: its rows of each array, then what is computed."""
        used = " ".join(self.lines["block"])
        own = [*self.own, *(f"sum_{name}" for name in self.form.totals)]
        lines = [f"{', '.join(own)}, = own[member]"] if own else []
        axes = {**self.form.axes, **self.whole}
        lines += [f"{name}_ = {name}[rows]" for name in axes if "r" in axes[name] and f"{name}_" in used]
        tall = [name for name in self.own if "r" in self.own[name]]
        lines += ["count = rows.stop - rows.start"] if tall else []
        return [*lines, *(f"{name}_ = {name}[:count]" for name in tall), *self.lines["block"]]

    # ------------------------------------------------------------------ where a value lies
    def _add(self, position: int, index: int) -> None:
        """The lines of a node."""
        node, part = self.form.nodes[index], self.parts[index]
        lines = self.lines[part]
        if node.function == "load":
            self.held[index] = str(node.operands[0])
        elif self._is_inlined(index):
            self.held[index] = ""
        elif node.function == "total":
            lines += self._total(index, node)
        elif node.function in PREDICATES:
            self.held[index] = f"b{index}"
            names = ", ".join(self._name(item, part) for item in node.operands)
            lines.append(f"b{index} = {FUNCTIONS[node.function][0]}({names})")
        else:
            self.held[index] = self._target(position, index, node)
            lines.append(self._call(node, self._shown(self.held[index], part), part))
        for operand in self.uses.read_by(index):
            name = self.held[operand]
            is_ours = name in self.own or name in self.whole or name in self.gets
            if is_ours and self.ends[operand] == position and name not in (*self.free, self.held.get(index)):
                self.free.append(name)

    def _is_inlined(self, index: int) -> bool:
        """True for a difference by which an element changes in place, and for that element."""
        changes = set(self.uses.changes.values())
        is_element = self.form.nodes[index].function == "pick" and self.uses.readers[index] & changes
        return index in changes or bool(is_element)

    def _target(self, position: int, index: int, node: RowNode) -> str:
        """The array that a node's result is written to."""
        operands = self.uses.read_by(index)
        candidates = [self.held[item] for item in operands if self.ends[item] == position] + self.free
        output = self.uses.versions.get(index)
        if output is not None:
            taken = [other for other, name in self.held.items() if name == output]
            assert all(self.ends[other] <= position for other in taken), f"{output} is overwritten"
            candidates = [output]
        for name in candidates:
            is_fit = self._axes_of(name) == node.axes and self._may_take(name, position, index)
            if name == output or is_fit:
                self.free = [other for other in self.free if other != name]
                return name
        pool, letter = (self.own, "s") if self.parts[index] == "block" else (self.whole, "w")
        pool[f"{letter}{len(pool)}"] = node.axes
        return f"{letter}{len(pool) - 1}"

    def _axes_of(self, name: str) -> str | None:
        return {**self.form.axes, **self.own, **self.whole}.get(name)

    def _may_take(self, name: str, position: int, index: int) -> bool:
        """True if a node that is no output's value may lie in an array."""
        if name in self.own:
            return self.parts[index] == "block"
        next_values = [other for other in self.gets.get(name, ()) if other > position]
        return name in self.whole or bool(next_values and self.ends[index] <= next_values[0])

    def _shown(self, name: str, part: str) -> str:
        """An array as the lines of a part see it: in a block, the rows of that."""
        return f"{name}_" if part == "block" and "r" in (self._axes_of(name) or "") else name

    # ------------------------------------------------------------------ calls
    def _vector(self, name: str) -> str:
        return self.shared.setdefault(name, f"n{len(self.shared)}")

    def _name(self, operand: RowOperand, part: str) -> str:
        if isinstance(operand, Ref):
            return self._shown(self.held[operand.index], part)
        return self._vector(operand if isinstance(operand, str) else repr(float(operand)))

    def _call(self, node: RowNode, target: str, part: str) -> str:
        function = node.function
        if function in ("pick", "put"):
            return self._at_label(node, target, part)
        names = [self._name(operand, part) for operand in node.operands]
        if function in _SUMS:
            return f"dot({names[0]}, {self._vector(_SUMS[function])}, out={target})"
        if function == "div" and node.operands[0] == 1:
            return f"reciprocal({names[1]}, out={target})"
        text = _CALLS.get(function, f"{FUNCTIONS.get(function, ('',))[0]}({', '.join(names)}, out={{out}})")
        return text.format(*names, out=target)

    def _at_label(self, node: RowNode, target: str, part: str) -> str:
        """An element at the label of each row, read or written; the arrays lie without gaps."""
        source, label = node.operands[:2]
        assert isinstance(source, Ref)
        index = self._shown(str(label), part)
        matrix = f"{self.held[source.index]}.reshape(-1)"
        if node.function == "pick":
            return f"{matrix}.take({index}, mode='clip', out={target})"
        assert target.removesuffix("_") == self.held[source.index], "only elements of outputs are written"
        element, sign = node.operands[2], ""
        if isinstance(element, Ref) and element.index in self.uses.changes.values():
            change = self.form.nodes[element.index]
            element, sign = change.operands[1], "-" if change.function == "sub" else "+"
        # no two rows share an element of the flat array
        return f"{matrix}[{index}] {sign}= {self._name(element, part)}"

    def _total(self, index: int, node: RowNode) -> list[str]:
        """The sum of a block's rows, which is added to a member's own."""
        name = next(store.output for store in self.form.stores if store.value == Ref(index))
        rows = self._name(node.operands[0], self.parts[index])
        ones = self._vector("ones_of_rows")
        if self.is_one:
            return [f"dot({ones}, {rows}, out={name})"]
        self.own["row"] = "c"
        return [f"dot({ones}[:len({rows})], {rows}, out=row)", f"add(sum_{name}, row, out=sum_{name})"]

    def _copy_others(self) -> None:
        """Outputs that are another one's value, an input or a number."""
        for output in self.form.outputs:
            value = self.form.last(output)
            if not self.form.is_total(value) and self._name(value, "tail") != output:
                self.lines["tail"].append(f"copyto({output}, {self._name(value, 'tail')})")


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]
