"""Row kernels as calls of an array module: the portable kernels of ops, with an array for each result."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import KernelError, ShapeError
from fluidlite.ops.kernels.numbers import at_last, first_wrong
from fluidlite.ops.kernels.row_kernels import (
    REDUCTIONS,
    RowArray,
    RowForm,
    RowKernel,
    RowNode,
    RowOperand,
    spelled,
)
from fluidlite.ops.kernels.scalar import FUNCTIONS, Ref, erf

__all__ = ["along_axis", "checked_labels", "over_rows"]

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_SUMMED = {"mean", "total"}  # of sums, those over matrices; NumPy's own sum adds in pairs, which loses less
Gather: TypeAlias = "Callable[[Any], Sequence[Any]]"
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def over_rows(
    xp: Any,
    kernel: RowKernel,
    sizes: Sequence[int],
    wants: frozenset[str] | None = None,
    gather: Any = None,
    **given: Any,
) -> tuple[Any, ...]:
    """The outputs of a kernel, each with the axes that the kernel declares; None for one whose slot nobody
    `wants`. `sizes` are those of the kernel's letters. An array that is None is absent.

    With `gather`, ranks share the rows of a kernel over channels: it gives the arrays of all of them.
    """
    function = _function(kernel, _absent(kernel, given), wants, True, gather is not None)
    return function(xp, sizes, gather, **given)


def along_axis(xp: Any, kernel: RowKernel, axis: int, **given: Any) -> list[Any]:
    """The outputs of a kernel whose rows run along an axis; numbers of rows keep that, with the size 1."""
    rank = max(value.ndim for value in given.values() if hasattr(value, "ndim"))
    is_last = axis in (-1, rank - 1)
    # a number is a row of one element; to move an axis takes as long as to compute with a few numbers
    if rank == 0:
        return [value.reshape(()) for value in along_axis(xp, kernel, -1, **{**given, **_raised(given)})]
    arrays = given if is_last else {name: _moved(xp, value, axis, -1) for name, value in given.items()}
    found = _function(kernel, _absent(kernel, given), None, False)(xp, (), None, **arrays)
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
    kernel: RowKernel,
    absent: Sequence[str],
    wants: frozenset[str] | None,
    is_shaped: bool,
    is_shared: bool = False,
) -> Callable[..., tuple[Any, ...]]:
    """A function of an array module, sizes, how ranks gather, and arrays and numbers by name, that gives the
    outputs. Where it `is_shaped`, it gives arrays the shapes that sizes say; otherwise they have one for each
    row.
    """
    wanted = None if wants is None else set(map(spelled, wants))
    unwanted = [array.name for array in kernel.writes if wanted is not None and array.name not in wanted]
    form = kernel.form(**dict.fromkeys([*absent, *unwanted]))
    names = [*(array.name for array in kernel.reads), *kernel.numbers]
    names += [label.ignored for label in kernel.labels]
    source = f"def kernel(xp, sizes, gather, {', '.join(f'{name}=None' for name in names)}):\n"
    source += "".join(f"    {line}\n" for line in _CallText(form, is_shaped, is_shared).lines())
    namespace: dict[str, Any] = {
        "erf": erf,
        "at_last": at_last,
        "largest": _largest,
        "put": _put,
        "kept": _kept,
    }
    namespace["labels_of"] = _labels_of
    namespace |= {"channel_sum": _channel_sum, "channel_spread": _channel_spread, "over_ranks": _over_ranks}
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


def _channel_sum(xp: Any, v: Any, w: Any = None) -> Any:
    """The sum of v, or of v * w, over all axes but the second of three."""
    if v.shape[2] == 1:
        v, w = v[..., 0], None if w is None else w[..., 0]
        found = v.sum(axis=0) if w is None else xp.einsum("nc,nc->c", v, w)
    else:
        # places first, which lie behind each other
        found = (v.sum(axis=2) if w is None else xp.einsum("ncp,ncp->nc", v, w)).sum(axis=0)
    return found[None, :, None]


def _channel_spread(xp: Any, v: Any, mean: Any) -> Any:
    """The sum of squares of what v is away from the mean of each channel: mean(v * v) - mean * mean loses
    digits where the mean is large.
    """
    away = v - mean
    return _channel_sum(xp, away, away)


def _over_ranks(
    xp: Any, gather: Gather, count: int, means: Sequence[Any], spreads: Mapping[int, Any]
) -> list[Any]:
    """Means and then variances over the rows of all ranks, which gather them at once; `spreads` are the
    variances by the positions of their means.

    The variance of the whole is the mean of the parts' variances and of their means' squared distances from
    the whole's mean.
    """
    own = [*means, *spreads.values()]
    parts = gather(xp.stack([*own, xp.full_like(own[0], count)]))
    if len(parts) == 1:
        return own
    *values, counts = (xp.stack(found) for found in zip(*parts, strict=True))
    shares = counts / counts.sum(axis=0)
    wholes = [(shares * mean).sum(axis=0) for mean in values[: len(means)]]
    squares = [
        spread + (values[at] - wholes[at]) ** 2
        for at, spread in zip(spreads, values[len(means) :], strict=True)
    ]
    return [*wholes, *((shares * square).sum(axis=0) for square in squares)]


class _CallText:
    """The lines of a form's function."""

    def __init__(self, form: RowForm, is_shaped: bool, is_shared: bool) -> None:
        self.form = form
        self.is_shaped = is_shaped
        self.order = sorted(form.live, key=self._stage) if is_shared else form.live
        self.is_shared = is_shared
        self.axes = form.kernel.axes
        self.whole = next(name for name in form.inputs if form.axes[name] == self.axes)
        """An array with all axes."""
        columns = form.kernel.columns
        self.of_row = tuple(at - len(self.axes) for at, axis in enumerate(self.axes) if axis in columns)
        self.results = [form.last(output) for output in form.outputs]
        readers: dict[int, list[int]] = {index: [] for index in form.live}
        for index in form.live:
            for item in form.nodes[index].operands:
                if isinstance(item, Ref):
                    readers[item.index].append(index)
        summed = {*_SUMMED, "sum"} if form.kernel.is_of_channels else _SUMMED
        self.products = {
            index
            for index in form.live
            if self._is_product(index)
            and {form.nodes[reader].function for reader in readers[index]} <= summed
        }
        self.products -= {value.index for value in self.results if isinstance(value, Ref)}
        """Products that only sums read, which need no array of them."""
        self.uses: dict[int, int] = {}
        """The last place in which a node is read."""
        for place, index in enumerate(self.order):
            self.uses.update((item.index, place) for item in self._read(index) if isinstance(item, Ref))
        self.uses.update((value.index, len(form.nodes)) for value in self.results if isinstance(value, Ref))

    def _stage(self, index: int) -> tuple[int, bool]:
        """The order of nodes where ranks gather the statistics of a depth at once."""
        node = self.form.nodes[index]
        is_reduced = node.function in REDUCTIONS
        return node.depth - is_reduced, is_reduced

    def _ends_statistics(self, place: int) -> bool:
        """True for the last reduction of its depth."""
        stage = self._stage(self.order[place])
        others = self.order[place + 1 :]
        return stage[1] and not (others and self._stage(others[0]) == stage)

    def _over_ranks(self, stage: tuple[int, bool]) -> str:
        nodes = self.form.nodes
        found = [index for index in self.order if self._stage(index) == stage]
        means = [index for index in found if nodes[index].function == "mean"]
        spreads = {index: nodes[index].operands[1] for index in found if nodes[index].function == "variance"}
        if not means:
            return "pass"
        given = ", ".join(f"v{index}" for index in means)
        behind = ", ".join(
            f"{means.index(mean.index)}: v{index}" for index, mean in spreads.items() if isinstance(mean, Ref)
        )
        names = ", ".join(f"v{index}" for index in [*means, *spreads])
        return f"{names}, = over_ranks(xp, gather, {self._count()}, [{given}], {{{behind}}})"

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
        for place, index in enumerate(self.order):
            found += self._lines(place, index)
            if self.is_shared and self._ends_statistics(place):
                found.append(self._over_ranks(self._stage(index)))
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
        if self._ends(second, place, node):
            names = f"{self._name(first)}, {self._name(second)}, out={self._name(second)}"
            return [f"v{index} = xp.{FUNCTIONS[node.function][0]}({names})"]
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
        if function == "variance":
            return f"channel_spread(xp, {', '.join(operands)}) / {self._count()}"
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
        text = self._channel_sum(node) if self.form.kernel.is_of_channels else self._row_sum(node)
        return f"{text} / {self._count()}" if node.function == "mean" else text

    def _channel_sum(self, node: RowNode) -> str:
        (operand,) = node.operands
        assert isinstance(operand, Ref)
        for index in self.form.live:
            other = self.form.nodes[index]
            if node.function == "mean" and other.function == "sum" and other.operands == node.operands:
                return f"v{index}"
        is_product = operand.index in self.products
        factors = self._factors(operand) if is_product else [self._name(operand)]
        return f"channel_sum(xp, {', '.join(factors)})"

    def _factors(self, product: Ref) -> list[str]:
        first, *rest = map(self._name, self.form.nodes[product.index].operands)
        return [first, [*rest, first][0]]

    def _row_sum(self, node: RowNode) -> str:
        (operand,) = node.operands
        assert isinstance(operand, Ref)
        kept = self._kept_axes(node)
        if operand.index in self.products:
            first, second = self._factors(operand)
            shown = ", ".join(":" if axis in kept else "None" for axis in self.axes)
            return f"xp.einsum('{self.axes},{self.axes}->{kept}', {first}, {second})[{shown}]"
        gone = tuple(place - len(self.axes) for place, axis in enumerate(self.axes) if axis not in kept)
        return f"{self._name(operand)}.sum(axis={gone}, keepdims=True)"

    def _count(self) -> str:
        """The elements of a row, 1 of those without any."""
        sizes = [f"{self.whole}.shape[{place}]" for place in self.of_row]
        if self.is_shaped:
            sizes = [f"size_{axis}" for axis in self.form.kernel.columns]
        return f"max({' * '.join(sizes)}, 1)"

    def _kept_axes(self, node: RowNode) -> str:
        if node.function != "total":
            return self.form.kernel.rows
        (output,) = (
            store.output
            for store in self.form.stores
            if isinstance(store.value, Ref) and self.form.nodes[store.value.index] is node
        )
        return self.form.axes[output]
