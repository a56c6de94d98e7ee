"""Row kernels as calls of an array module: the portable kernels of ops, with an array for each result."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import KernelError, ShapeError
from fluidlite.ops.kernels.numbers import at_last, first_wrong
from fluidlite.ops.kernels.row_kernels import RowArray, RowForm, RowKernel, RowNode, RowOperand, spelled
from fluidlite.ops.kernels.scalar import FUNCTIONS, Ref, erf

__all__ = ["along_axis", "checked_labels", "over_rows"]

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_SUMMED = {"mean", "total"}  # of sums, those over matrices; NumPy's own sum adds in pairs, which loses less
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def over_rows(
    xp: Any, kernel: RowKernel, sizes: Sequence[int], wants: frozenset[str] | None = None, **given: Any
) -> tuple[Any, ...]:
    """The outputs of a kernel, each with the axes that the kernel declares; None for one whose slot nobody
    `wants`. `sizes` are those of the kernel's letters. An array that is None is absent.
    """
    return _function(kernel, _absent(kernel, given), wants, True)(xp, sizes, **given)


def along_axis(xp: Any, kernel: RowKernel, axis: int, **given: Any) -> list[Any]:
    """The outputs of a kernel whose rows run along an axis; numbers of rows keep that, with the size 1."""
    rank = max(value.ndim for value in given.values() if hasattr(value, "ndim"))
    is_last = axis in (-1, rank - 1)
    # a number is a row of one element; to move an axis takes as long as to compute with a few numbers
    if rank == 0:
        return [value.reshape(()) for value in along_axis(xp, kernel, -1, **{**given, **_raised(given)})]
    arrays = given if is_last else {name: _moved(xp, value, axis, -1) for name, value in given.items()}
    found = _function(kernel, _absent(kernel, given), None, False)(xp, (), **arrays)
    return [value if is_last else xp.moveaxis(value, -1, axis) for value in found]


def _absent(kernel: RowKernel, given: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple([name for name in kernel.read_names if given.get(name) is None])


def _raised(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.reshape(1) for name, value in given.items() if hasattr(value, "ndim")}


def _moved(xp: Any, value: Any, source: int, target: int) -> Any:
    return xp.moveaxis(value, source, target) if hasattr(value, "ndim") else value


def checked_labels(xp: Any, type: str, labels: Array, classes: int, ignore_index: int) -> tuple[Any, Any]:
    """Labels with the ignored ones replaced by 0, and which ones count (True: all of them); KernelError for a
    label that is not a class.
    """
    # what is to be ignored is no class, as a rule: then all labels that are classes count
    if xp is np and labels.size and not 0 <= ignore_index < classes and _are_below(labels, classes):
        return labels, True
    counts = labels != ignore_index
    safe = xp.where(counts, labels, 0)
    # reading the result back from a device would stall it, so only the host checks
    if xp is np and safe.size and not _are_below(safe, classes):
        label, where = first_wrong(safe, (safe < 0) | (safe >= classes))
        raise KernelError(
            f"op {type!r}: label {label} is not one of {classes} classes ({where}; ignore_index is "
            f"{ignore_index})"
        )
    return safe, counts


def _labels_of(xp: Any, type: str, labels: Array, whole: tuple[int, ...], ignore_index: int) -> Any:
    """`checked_labels` of rows in an array of the shape `whole`, each of which has one."""
    if labels.shape != (*whole[:-1], 1):
        raise ShapeError(
            f"op {type!r}: labels of the shape {list(labels.shape)} do not fit rows of {list(whole)}"
        )
    return checked_labels(xp, type, labels, whole[-1], ignore_index)


def _are_below(labels: Array, classes: int) -> bool:
    """True if all labels are classes."""
    if labels.dtype.kind == "i" and labels.flags.c_contiguous:
        # seen as unsigned numbers, negative ones are large: one call for two
        unsigned = labels.view(_UNSIGNED[labels.itemsize])
        largest = np.maximum.reduce(unsigned) if labels.ndim == 1 else np.maximum.reduce(unsigned, axis=None)
        return bool(largest < classes)
    return bool(0 <= labels.min() <= labels.max() < classes)


# ---------------------------------------------------------------------- the text of such a function
@functools.cache
def _function(
    kernel: RowKernel, absent: Sequence[str], wants: frozenset[str] | None, is_shaped: bool
) -> Callable[..., tuple[Any, ...]]:
    """A function of an array module, sizes, and arrays and numbers by name, that gives the outputs. Where it
    `is_shaped`, it gives arrays the shapes that sizes say; otherwise they have one for each row.
    """
    wanted = None if wants is None else set(map(spelled, wants))
    unwanted = [array.name for array in kernel.writes if wanted is not None and array.name not in wanted]
    form = kernel.form(**dict.fromkeys([*absent, *unwanted]))
    names = [*(array.name for array in kernel.reads), *kernel.numbers]
    names += [label.ignored for label in kernel.labels]
    source = f"def kernel(xp, sizes, {', '.join(f'{name}=None' for name in names)}):\n"
    source += "".join(f"    {line}\n" for line in _CallText(form, is_shaped).lines())
    namespace: dict[str, Any] = {
        "erf": erf,
        "at_last": at_last,
        "largest": _largest,
        "put": _put,
        "kept": _kept,
    }
    namespace["labels_of"] = _labels_of
    exec(compile(source, f"<fluidlite row kernel {kernel.name}>", "exec"), namespace)
    function: Callable[..., tuple[Any, ...]] = namespace["kernel"]
    return function


def _largest(v: Any, axes: tuple[int, ...]) -> Any:
    """The largest element of each row; 0 of rows without elements."""
    return v.max(axis=axes, keepdims=True) if v.size else v.sum(axis=axes, keepdims=True)


def _put(xp: Any, v: Any, labels: tuple[Any, Any], element: Any) -> Any:
    """`v` with another element at the label of each row."""
    return xp.where(labels[0] == xp.arange(v.shape[-1]), element, v)


def _kept(xp: Any, v: Any, labels: tuple[Any, Any]) -> Any:
    """`v` in the rows whose label counts, 0 in others, which may be NaN."""
    return v if labels[1] is True else xp.where(labels[1], v, v.dtype.type(0))


class _CallText:
    """The lines of a form's function."""

    def __init__(self, form: RowForm, is_shaped: bool) -> None:
        self.form = form
        self.is_shaped = is_shaped
        self.axes = form.kernel.axes
        self.whole = next(name for name in form.inputs if form.axes[name] == self.axes)
        """An array with all axes."""
        self.of_row = tuple(-1 - place for place in range(len(form.kernel.columns)))
        self.results = [form.last(output) for output in form.outputs]
        readers: dict[int, list[int]] = {index: [] for index in form.live}
        for index in form.live:
            for item in form.nodes[index].operands:
                if isinstance(item, Ref):
                    readers[item.index].append(index)
        self.products = {
            index
            for index in form.live
            if self._is_product(index)
            and {form.nodes[reader].function for reader in readers[index]} <= _SUMMED
        }
        self.products -= {value.index for value in self.results if isinstance(value, Ref)}
        """Products that only sums read, which need no array of them."""
        self.uses: dict[int, int] = {}
        """The last place in which a node is read."""
        for place, index in enumerate(form.live):
            self.uses.update((item.index, place) for item in self._read(index) if isinstance(item, Ref))
        self.uses.update((value.index, len(form.nodes)) for value in self.results if isinstance(value, Ref))

    def _is_product(self, index: int) -> bool:
        """True for a product of two arrays with all axes."""
        node = self.form.nodes[index]
        is_whole = all(self.form.axes_of(item) == self.axes for item in node.operands)
        return is_whole and node.function in ("mul", "square")

    def _read(self, index: int) -> Sequence[RowOperand]:
        """The operands of the line of a node."""
        if index in self.products:
            return ()
        operands = self.form.nodes[index].operands
        first = operands[0]
        if isinstance(first, Ref) and first.index in self.products:
            return self.form.nodes[first.index].operands
        return operands

    def lines(self) -> list[str]:
        """The lines that make arrays ready, one for each node, and one for the results."""
        found = self._shapes() if self.is_shaped else []
        name = self.form.kernel.name
        for label in self.form.labels:
            given = f"{label.name}, {self.whole}.shape, {label.ignored}"
            found.append(f"{label.name} = labels_of(xp, {name!r}, {given})")
        for place, index in enumerate(self.form.live):
            found += self._lines(place, index)
            ended = [f"v{other}" for other in self._ended(place, index)]
            # large arrays are given back before others are asked for
            found += [f"del {', '.join(ended)}"] if ended else []
        results = [self._result(array) for array in self.form.kernel.writes]
        return [*found, f"return {', '.join(results)},"]

    def _shapes(self) -> list[str]:
        axes = self.form.axes
        found = [f"{''.join(f'size_{axis}, ' for axis in self.axes)}= sizes"]
        for name in self.form.inputs:
            shape = ", ".join(f"size_{axis}" if axis in axes[name] else "1" for axis in self.axes)
            found.append(f"{name} = {name}.reshape({shape})")
        return found

    def _ended(self, place: int, index: int) -> list[int]:
        """The nodes with all axes whose arrays are read here for the last time."""
        nodes = self.form.nodes
        read = dict.fromkeys(item.index for item in self._read(index) if isinstance(item, Ref))
        return [
            item
            for item in read
            if self.uses[item] == place and nodes[item].function != "load" and nodes[item].axes == self.axes
        ]

    def _result(self, array: RowArray) -> str:
        if array.name not in self.form.axes:
            return "None"
        found = self._name(self.form.last(array.name))
        if array.name in self.form.cleared:
            found = f"kept(xp, {found}, {self.form.labels[0].name})"
        shape = ", ".join(f"size_{axis}" for axis in array.axes)
        return f"{found}.reshape({shape})" if self.is_shaped else found

    def _name(self, operand: RowOperand) -> str:
        if not isinstance(operand, Ref):
            return operand if isinstance(operand, str) else repr(operand)
        node = self.form.nodes[operand.index]
        return str(node.operands[0]) if node.function == "load" else f"v{operand.index}"

    def _lines(self, place: int, index: int) -> list[str]:
        node = self.form.nodes[index]
        if node.function == "load" or index in self.products:
            return []
        if node.function in _OPERATORS:
            return self._operation(place, index, node)
        return [f"v{index} = {self._call(node)}"]

    def _operation(self, place: int, index: int, node: RowNode) -> list[str]:
        """An operator, in the memory of an operand that nothing reads any more."""
        first, second = node.operands
        if (
            not self._ends(first, place, node)
            and node.function in ("add", "mul")
            and self._ends(second, place, node)
        ):
            first, second = second, first
        sign = _OPERATORS[node.function]
        if self._ends(first, place, node):
            return [f"v{index} = {self._name(first)}", f"v{index} {sign}= {self._name(second)}"]
        return [f"v{index} = {self._name(first)} {sign} {self._name(second)}"]

    def _ends(self, operand: RowOperand, place: int, node: RowNode) -> bool:
        """True for an array of our own as large as the result, which is read here for the last time."""
        if not isinstance(operand, Ref) or self.uses[operand.index] != place:
            return False
        source = self.form.nodes[operand.index]
        return source.function != "load" and source.axes == node.axes == self.axes

    def _call(self, node: RowNode) -> str:
        function = node.function
        operands = [self._name(item) for item in node.operands]
        if function in ("sum", "mean", "total"):
            return self._sum(node)
        if function == "max":
            return f"largest({operands[0]}, {self.of_row})"
        if function == "pick":
            return f"at_last(xp, {operands[0]}, {operands[1]}[0])"
        if function == "put":
            return f"put(xp, {', '.join(operands)})"
        if function == "erf":
            return f"erf(xp, {operands[0]})"
        return f"xp.{FUNCTIONS[function][0]}({', '.join(operands)})"

    def _sum(self, node: RowNode) -> str:
        """A sum along the axes that the result lacks."""
        (operand,) = node.operands
        assert isinstance(operand, Ref)
        kept = self._kept_axes(node)
        if operand.index in self.products:
            first, *rest = map(self._name, self.form.nodes[operand.index].operands)
            shown = ", ".join(":" if axis in kept else "None" for axis in self.axes)
            text = f"xp.einsum('{self.axes},{self.axes}->{kept}', {first}, {[*rest, first][0]})[{shown}]"
        else:
            gone = tuple(place - len(self.axes) for place, axis in enumerate(self.axes) if axis not in kept)
            text = f"{self._name(operand)}.sum(axis={gone}, keepdims=True)"
        if node.function != "mean":
            return text
        sizes = [f"{self.whole}.shape[{place}]" for place in self.of_row]
        if self.is_shaped:
            sizes = [f"size_{axis}" for axis in self.form.kernel.columns]
        size = " * ".join(sizes)
        return f"{text} / max({size}, 1)"

    def _kept_axes(self, node: RowNode) -> str:
        if node.function != "total":
            return self.form.kernel.rows
        (output,) = (
            store.output
            for store in self.form.stores
            if isinstance(store.value, Ref) and self.form.nodes[store.value.index] is node
        )
        return self.form.axes[output]
