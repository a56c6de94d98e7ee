"""A block as a graph: ops, and the values between them. A variable that is written again is a new value,
so the graph has no circles.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.variable import Parameter, Variable

__all__ = ["Graph", "Value", "block_graph", "value_label"]


@dataclass(frozen=True)
class Value:
    """What a variable holds from one write to the next; `version` counts the writes before."""

    name: str
    version: int
    var: Variable | None

    @property
    def is_parameter(self) -> bool:
        """Whether this is a parameter's value."""
        return isinstance(self.var, Parameter)


@dataclass
class Graph:
    """Ops in order; `reads` and `writes` give, for each, the indices into `values`."""

    ops: list[Operator] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    reads: list[list[int]] = field(default_factory=list)
    writes: list[list[int]] = field(default_factory=list)


def block_graph(block: Block) -> Graph:
    """The graph of one block; sub-blocks have graphs of their own."""
    graph, latest = Graph(), dict[str, int]()

    def value(name: str, version: int) -> int:
        graph.values.append(Value(name, version, block._find_var_recursive(name)))
        latest[name] = len(graph.values) - 1
        return latest[name]

    for op in block.ops:
        reads = [
            latest[name] if name in latest else value(name, 0) for name in dict.fromkeys(op.input_arg_names)
        ]
        writes = [
            value(name, graph.values[latest[name]].version + 1 if name in latest else 0)
            for name in dict.fromkeys(op.output_arg_names)
        ]
        graph.ops.append(op)
        graph.reads.append(reads)
        graph.writes.append(writes)
    return graph


def value_label(value: Value) -> str:
    """The name, with the shape of a parameter on a second line."""
    return (
        f"{value.name}\n{list(value.var.shape)}"
        if value.is_parameter and value.var is not None
        else value.name
    )
