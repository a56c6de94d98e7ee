"""Channels of a network that go together: when an op computes fewer of them, which parameters shrink with it.

The search starts from the output of an op whose weight is pruned, and follows variables that have these
channels,
forwards and backwards: through activations, normalisation, pooling and sums, to the weights that make the
same channels (the other branch of a residual sum), and to those that read them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

import numpy as np

from fluidlite.base.records import dataclass
from fluidlite.contrib.slim.graph.graph_wrapper import GraphWrapper, OpWrapper, VarWrapper

__all__ = ["Cut", "cuts_of"]

ELEMENTWISE = ("elementwise_add", "elementwise_sub", "elementwise_mul", "sum")
UNCHANGED = (
    *(
        "relu",
        "relu6",
        "leaky_relu",
        "sigmoid",
        "tanh",
        "swish",
        "hard_swish",
        "hard_sigmoid",
        "prelu",
        "elu",
    ),
    *("pool2d", "dropout", "scale", "assign", "bilinear_interp", "nearest_interp", "lrn", "pad2d", "cast"),
)


@dataclass(frozen=True)
class Cut:
    """The slices of a parameter that go, along one axis."""

    param: str
    axis: int
    slices: tuple[int, ...]


@dataclass
class _Search:
    """One search through a graph, from the channels `gone` of a variable."""

    graph: GraphWrapper
    cuts: dict[tuple[str, int], Cut] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        forward = [op for op in self.graph.ops() if not op.is_bwd_op() and not op.is_opt_op()]
        self.readers: dict[str, list[OpWrapper]] = {}
        self.writers: dict[str, list[OpWrapper]] = {}
        for op in forward:
            for var in op.all_inputs():
                self.readers.setdefault(var.name(), []).append(op)
            for var in op.all_outputs():
                self.writers.setdefault(var.name(), []).append(op)

    def cut(self, var: VarWrapper, axis: int, gone: Sequence[int]) -> None:
        """Note that slices of a parameter go."""
        self.cuts.setdefault((var.name(), axis), Cut(var.name(), axis, tuple(gone)))

    def follow(self, start: VarWrapper, gone: Sequence[int]) -> None:
        """Follow the channels of a variable, its dimension 1, wherever they are read and written."""
        stack = [(start, tuple(gone))]
        while stack:
            var, channels = stack.pop()
            if var.name() in self.seen:
                continue
            self.seen.add(var.name())
            for op in self.writers.get(var.name(), ()):
                if op.type() in _WRITES:
                    stack += _WRITES[op.type()](self, op, channels)
            for op in self.readers.get(var.name(), ()):
                if op.type() in _READS:  # behind other ops there are other channels
                    stack += _READS[op.type()](self, op, var, channels)


Found = Iterator[tuple[VarWrapper, tuple[int, ...]]]
Gone = tuple[int, ...]


# ---------------------------------------------------------------------- ops that make the channels
def _made_by_conv(search: _Search, op: OpWrapper, gone: Gone) -> Found:
    search.cut(op.inputs("Filter")[0], 0, gone)
    if op.type() == "depthwise_conv2d":
        yield op.inputs("Input")[0], gone


def _made_by_product(search: _Search, op: OpWrapper, gone: Gone) -> Found:
    search.cut(op.inputs("Y")[0], 1, gone)
    yield from ()


def _made_by_norm(search: _Search, op: OpWrapper, gone: Gone) -> Found:
    for slot in ("Scale", "Bias", "Mean", "Variance"):
        search.cut(op.inputs(slot)[0], 0, gone)
    yield op.inputs("X")[0], gone


def _made_element_by_element(search: _Search, op: OpWrapper, gone: Gone) -> Found:
    for var in op.all_inputs():
        if not search.graph.is_persistable(var):
            yield var, gone
        elif var.shape() != (1,):
            search.cut(var, len(var.shape()) - 1 if len(var.shape()) == 1 else 1, gone)


def _made_by_concat(search: _Search, op: OpWrapper, gone: Gone) -> Found:
    start = 0
    for var in op.inputs("X"):
        count = var.shape()[1]
        inside = tuple(one - start for one in gone if start <= one < start + count)
        if inside and op.attr("axis") == 1:
            yield var, inside
        start += count


_WRITES: dict[str, Callable[[_Search, OpWrapper, Gone], Found]] = {
    **dict.fromkeys(("conv2d", "depthwise_conv2d"), _made_by_conv),
    "mul": _made_by_product,
    "batch_norm": _made_by_norm,
    "concat": _made_by_concat,
    **dict.fromkeys((*ELEMENTWISE, *UNCHANGED), _made_element_by_element),
}


# ---------------------------------------------------------------------- ops that read them
def _read_by_conv(search: _Search, op: OpWrapper, var: VarWrapper, gone: Gone) -> Found:
    if op.type() == "depthwise_conv2d":
        search.cut(op.inputs("Filter")[0], 0, gone)
        yield op.outputs("Output")[0], gone
    else:
        search.cut(op.inputs("Filter")[0], 1, gone)


def _read_by_product(search: _Search, op: OpWrapper, var: VarWrapper, gone: Gone) -> Found:
    if var == op.inputs("X")[0]:  # the product flattens each channel to so many rows of Y
        rows = op.inputs("Y")[0].shape()[0]
        size = math.prod(var.shape()[2:])
        size = size if size > 0 else rows // var.shape()[1]
        taken = np.concatenate([np.arange(one * size, (one + 1) * size) for one in gone])
        search.cut(op.inputs("Y")[0], 0, tuple(int(row) for row in taken))
    yield from ()


def _read_element_by_element(search: _Search, op: OpWrapper, var: VarWrapper, gone: Gone) -> Found:
    yield op.outputs("Y" if op.type() == "batch_norm" else "Out")[0], gone


def _read_by_concat(search: _Search, op: OpWrapper, var: VarWrapper, gone: Gone) -> Found:
    if op.attr("axis") == 1:
        before = 0
        for one in op.inputs("X"):
            if one == var:
                break
            before += one.shape()[1]
        yield op.outputs("Out")[0], tuple(one + before for one in gone)


_READS: dict[str, Callable[[_Search, OpWrapper, VarWrapper, Gone], Found]] = {
    **dict.fromkeys(("conv2d", "depthwise_conv2d"), _read_by_conv),
    "mul": _read_by_product,
    "concat": _read_by_concat,
    **dict.fromkeys(("batch_norm", *ELEMENTWISE, *UNCHANGED), _read_element_by_element),
}


def cuts_of(graph: GraphWrapper, param: str, gone: Sequence[int]) -> list[Cut]:
    """All that has to be cut when a weight loses the output channels `gone`, the weight itself first.

    ValueError for a parameter that is not a weight of a convolution or product of the forward part.
    """
    search = _Search(graph)
    for op in search.readers.get(param, ()):
        if op.type() in ("conv2d", "depthwise_conv2d", "mul"):
            search.follow(op.outputs("Out" if op.type() == "mul" else "Output")[0], gone)
            return list(search.cuts.values())
    raise ValueError(
        f"{param!r} is not the weight of a convolution or matrix product, so it has no output channels"
    )
