"""`paddle.summary`: the layers of a network, the shapes between them and the numbers of their parameters."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fluidlite import unique_name
from fluidlite.base.dtypes import DTypeLike
from fluidlite.base.records import dataclass
from fluidlite.ir.program import program_guard
from fluidlite.ir.variable import Variable
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.nn.layer.container import LayerList, Sequential
from fluidlite.paddle.programs import Program
from fluidlite.paddle.static.inputs import InputSpec, data

__all__ = ["summary"]

_BYTES = 4  # of a number of single precision, which is counted for all
_MB = 1 << 20


@dataclass(frozen=True)
class Row:
    """A layer that was called: the shapes of its inputs and outputs, and its own numbers."""

    name: str
    inputs: Any
    outputs: Any
    params: int
    trainable: int


def summary(net: Layer, input_size: Any = None, dtypes: Any = None, input: Any = None) -> dict[str, int]:
    """Print a table of the layers of `net` as they are called with inputs of the given sizes; gives the
    numbers of parameters, {"total_params": ..., "trainable_params": ...}.

    input_size: a shape, a list of shapes, or InputSpecs; sizes that are None or -1 count as 1. input: an
    array or Variable, or a list or dict of them, to take the shapes of. dtypes: of the inputs, float32 by
    default.
    """
    if input_size is None and input is None:
        raise ValueError("input_size and input cannot be None at the same time")
    with scratch_program(net):
        given = _of_values(input) if input is not None else declared(input_size, dtypes)
        rows = _call(net, given)
    table = _table(rows, [var.shape for var in _variables(given)])
    print(table)
    total = sum(row.params for row in rows)
    return {"total_params": total, "trainable_params": sum(row.trainable for row in rows)}


# ---------------------------------------------------------------------- calling the network
@contextlib.contextmanager
def scratch_program(net: Layer) -> Iterator[None]:
    """A program to call `net` in, that is thrown away; names of variables go on afterwards as before."""
    try:
        with program_guard(Program(), Program()), unique_name.guard("summary_"):
            yield
    finally:
        net._declare()  # its parameters are those of the program at hand again


def declared(sizes: Any, dtypes: Any) -> list[Variable]:
    """Inputs of the given sizes, declared."""
    if isinstance(sizes, InputSpec) or _is_shape(sizes):
        sizes = [sizes]
    specs = list(sizes)
    kinds = list(dtypes) if isinstance(dtypes, (list, tuple)) else [dtypes] * len(specs)
    found = []
    for place, (size, kind) in enumerate(zip(specs, kinds, strict=True)):
        if isinstance(size, InputSpec):
            found.append(_declare(place, size.shape, kind or size.dtype))
        else:
            found.append(_declare(place, size, kind or "float32"))
    return found


def _is_shape(sizes: Any) -> bool:
    if isinstance(sizes, int):
        return True
    if not isinstance(sizes, (list, tuple)) or not sizes:
        raise TypeError(f"Expected input_size to be a shape or shapes, but received {sizes!r}")
    return all(size is None or isinstance(size, int) for size in sizes)


def _declare(place: int, size: Any, kind: DTypeLike) -> Variable:
    dims = [size] if isinstance(size, int) else list(size)
    shape = [1 if dim in (None, -1) else dim for dim in dims]
    for dim in shape:
        if not isinstance(dim, int):
            raise TypeError(f"Expected item in input size be an integer, but received {dim!r}")
        if dim <= 0:
            raise ValueError(f"Expected element in input size greater than zero, but got {dim}")
    return data(f"input_{place}", shape, kind)


def _of_values(values: Any, place: int = 0) -> Any:
    """Inputs of the shapes and dtypes of arrays or Variables."""
    if isinstance(values, Mapping):
        return [{key: _of_values(value, at) for at, (key, value) in enumerate(values.items())}]
    if isinstance(values, (list, tuple)):
        return [_of_values(value, at)[0] for at, value in enumerate(values)]
    return [_declare(place, tuple(values.shape), values.dtype)]


def _variables(values: Any) -> Iterator[Variable]:
    if isinstance(values, Variable):
        yield values
    elif isinstance(values, Mapping):
        yield from _variables(list(values.values()))
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from _variables(value)


def shapes(values: Any) -> Any:
    """The shapes of Variables, in lists as these are; [] for what is no Variable."""
    if isinstance(values, Variable):
        return list(values.shape)
    if isinstance(values, (list, tuple)):
        return [shapes(value) for value in values]
    return []


def _call(net: Layer, given: Sequence[Any]) -> list[Row]:
    """Call `net`, and note each layer that is called inside; one that is called again counts once."""
    rows: dict[int, Row] = {}
    hooks = []

    def note(layer: Layer, inputs: Any, outputs: Any) -> None:
        rows[id(layer)] = _row(layer, inputs, outputs)

    for layer in net.sublayers(include_self=True):
        # recurrent networks are lists of cells too, and count themselves
        only_holds = type(layer) in (Sequential, LayerList)
        if not only_holds and (layer is not net or not net.sublayers()):
            hooks.append(layer.register_forward_post_hook(note))
    try:
        net(*given)
    finally:
        for hook in hooks:
            hook.remove()
    return list(rows.values())


def _row(layer: Layer, inputs: Any, outputs: Any) -> Row:
    params = trainable = 0
    own = [var for var in (*layer._parameters.values(), *layer._buffers.values()) if var is not None]
    for var in own:
        size = math.prod(var.shape)
        params += size
        trainable += 0 if var.stop_gradient else size
    name = f"{type(layer).__name__}-{layer._number + 1}"
    return Row(name, shapes(list(inputs)), shapes(outputs), params, trainable)


# ---------------------------------------------------------------------- the table
def _table(rows: Sequence[Row], inputs: Sequence[Sequence[int]]) -> str:
    cells = [(row.name, str(row.inputs), str(row.outputs), f"{row.params:,}") for row in rows]
    heads = ("Layer (type)", "Input Shape", "Output Shape", "Param #")
    least = (15, 20, 20, 15)
    widths = [max([low, *(len(line[at]) for line in cells)]) for at, low in enumerate(least)]
    rule = "-" * (sum(widths) + 5)
    double = "=" * (sum(widths) + 5)
    lines = [
        " ".join(f"{cell:^{width}}" for cell, width in zip(line, widths, strict=True))
        for line in (heads, *cells)
    ]
    total = sum(row.params for row in rows)
    trainable = sum(row.trainable for row in rows)
    sizes = [
        sum(math.prod(shape) for shape in inputs) * _BYTES / _MB,
        # each output has a gradient beside it
        2 * sum(_numbers(row.outputs) for row in rows) * _BYTES / _MB,
        total * _BYTES / _MB,
    ]
    return "\n".join(
        [
            rule,
            lines[0],
            double,
            *lines[1:],
            double,
            f"Total params: {total:,}",
            f"Trainable params: {trainable:,}",
            f"Non-trainable params: {total - trainable:,}",
            rule,
            f"Input size (MB): {sizes[0]:.2f}",
            f"Forward/backward pass size (MB): {sizes[1]:.2f}",
            f"Params size (MB): {sizes[2]:.2f}",
            f"Estimated Total Size (MB): {sum(sizes):.2f}",
            rule,
            "",
        ]
    )


def _numbers(shape: Any) -> int:
    """The number of elements that shapes have together."""
    if not shape or not isinstance(shape[0], int):
        return sum(_numbers(inner) for inner in shape)
    return math.prod(shape)
