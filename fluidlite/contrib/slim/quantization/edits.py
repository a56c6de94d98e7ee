"""Edits of graphs that the passes of quantisation share, and the values that they keep in scopes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fluidlite.base.dtypes import VarType
from fluidlite.framework import IrGraph, IrOpNode, IrVarNode, OpRole

__all__ = ["GraphEditor", "check_graph", "check_supported", "levels", "load", "quantized_values", "store"]

_PAIR = (("X", "Y"), ("Out",))
_ONE = (("X",), ("Out",))
_CONV = (("Input", "Filter"), ("Output",))
_SLOTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    **dict.fromkeys(("conv2d", "depthwise_conv2d"), _CONV),
    **dict.fromkeys(("mul", "matmul", "elementwise_add", "elementwise_sub", "elementwise_mul"), _PAIR),
    **dict.fromkeys(
        ("equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal"), _PAIR
    ),
    "slice": (("Input",), ("Out",)),
    "batch_norm": (("X",), ("Y",)),
}
"""Op type -> the slots whose values are quantised, where they are not X and Out alone."""


def data_slots(op_type: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The input and output slots of an op that hold what it computes with: no shapes, masks or statistics."""
    return _SLOTS.get(op_type, _ONE)


def input_names(op: IrOpNode) -> list[str]:
    """The names that an op computes with, each once."""
    found = [name for slot in data_slots(op.name())[0] for name in op.input(slot)]
    return list(dict.fromkeys(found))


def output_names(op: IrOpNode) -> list[str]:
    """The names of what an op computes."""
    return [name for slot in data_slots(op.name())[1] for name in op.output(slot)]


def levels(bits: int) -> int:
    """The largest integer of so many bits, of which one is the sign."""
    return (1 << (bits - 1)) - 1


def quantized_values(values: Any, scale: Any, bits: int) -> Any:
    """`values` as multiples of scale / levels; a scale each along the first dimension, or one for all."""
    values = np.asarray(values)
    scale = np.asarray(scale, values.dtype)
    if scale.size > 1:
        scale = scale.reshape((-1,) + (1,) * (values.ndim - 1))
    else:
        scale = scale.reshape(())
    return np.round(values / scale * levels(bits))


def check_graph(graph: Any) -> None:
    """AssertionError for anything but an IrGraph."""
    assert isinstance(graph, IrGraph), "graph must be the instance of IrGraph."


def check_supported(given: Iterable[str], supported: Iterable[str]) -> None:
    """AssertionError for an op type that a pass does not quantise."""
    for op_type in given:
        assert op_type in supported, f"{op_type} is not supported for quantization."


# ---------------------------------------------------------------------- values in scopes
def load(scope: Any, name: str) -> Any:
    """The array of a variable; AssertionError where the scope has none."""
    found = scope.find_var(name)
    assert found is not None, f"variable {name!r} is not in the scope"
    return np.array(found.get_tensor())


def store(scope: Any, place: Any, name: str, value: Any) -> None:
    """Set the array of a variable, which is made where it is missing."""
    scope.var(name).get_tensor().set(value, place)


class GraphEditor:
    """A graph with the scope and place of its values.

    New variables that outlive a run get their first values in the scope; no startup program has them.
    """

    def __init__(self, graph: IrGraph, scope: Any, place: Any) -> None:
        self.graph, self.scope, self.place = graph, scope, place
        self.persistable = {node.name() for node in graph.all_persistable_nodes()}

    def state(self, name: str, value: Any, like: VarType) -> IrVarNode:
        """A variable that outlives a run, with its first value."""
        array = np.asarray(value, "float64" if like == VarType.FP64 else "float32")
        kind = VarType.LOD_TENSOR
        node = self.graph.create_persistable_node(name, kind, list(array.shape), like)
        self.initialise(name, array)
        return node

    def initialise(self, name: str, array: Any) -> None:
        """Set the first value of a new variable; AssertionError without a scope and place."""
        assert self.scope is not None, "The scope cannot be set None."
        assert self.place is not None, "The place cannot be set None."
        store(self.scope, self.place, name, array)

    def temporary(self, name: str, like: IrVarNode, shape: Iterable[int] | None = None) -> IrVarNode:
        """A variable of the kind, dtype and (unless given) shape of another."""
        shape = like.shape() if shape is None else shape
        return self.graph.create_var_node(name, like.type(), list(shape), like.dtype())

    def version(self, node: IrVarNode) -> IrVarNode:
        """A later version of the same variable: what an op writes that also reads it."""
        return self.graph.create_var_node_from_desc(node.desc())

    def insert(
        self, op_type: str, attrs: Mapping[str, Any], inputs: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> IrOpNode:
        """A new op of the forward part, linked to what it reads and writes."""
        op = self.graph.create_op_node(op_type, {**attrs, "op_role": int(OpRole.Forward)}, inputs, outputs)
        for node in _flat(inputs):
            self.graph.link_to(node, op)
        for node in _flat(outputs):
            self.graph.link_to(op, node)
        return op

    def ops(self) -> list[IrOpNode]:
        """The ops in topological order: names that a pass numbers are the same in every process."""
        return self.graph.topology_sort()

    def input_node(self, op: IrOpNode, name: str) -> IrVarNode:
        """The version of `name` that an op reads."""
        return next(node for node in op.inputs if node.name() == name)

    def output_node(self, op: IrOpNode, name: str) -> IrVarNode:
        """The version of `name` that an op writes."""
        return next(node for node in op.outputs if node.name() == name)

    def has_weight(self, op: IrOpNode) -> bool:
        """True if an op reads a variable that outlives a run."""
        return any(name in self.persistable for name in op.input_arg_names())

    def remove_unused_variables(self) -> None:
        """Remove the variables that no op reads or writes."""
        unused = {node for node in self.graph.all_var_nodes() if not node.inputs and not node.outputs}
        self.graph.safe_remove_nodes(unused)


def _flat(slots: Mapping[str, Any]) -> list[Any]:
    return [
        node for nodes in slots.values() for node in (nodes if isinstance(nodes, (list, tuple)) else [nodes])
    ]
