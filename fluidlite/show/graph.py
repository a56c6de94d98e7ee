"""A block as a graph: ops, and the values between them. A variable that is written again is a new value,
so the graph has no circles.
"""

from __future__ import annotations

from fluidlite.base.records import dataclass
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.variable import Parameter, Variable

__all__ = ["BlockGraph", "VariableVersion", "block_graph", "value_label"]


@dataclass(frozen=True)
class VariableVersion:
    """A variable from one write to the next; `version` counts the writes before."""

    name: str
    version: int
    var: Variable | None

    @property
    def is_parameter(self) -> bool:
        """True for a version of a parameter."""
        return isinstance(self.var, Parameter)


@dataclass(frozen=True)
class BlockGraph:
    """Ops in order; `reads` and `writes` give, for each, the indices into `values`."""

    ops: tuple[Operator, ...]
    values: tuple[VariableVersion, ...]
    reads: tuple[list[int], ...]
    writes: tuple[list[int], ...]


def block_graph(block: Block) -> BlockGraph:
    """The graph of one block; sub-blocks have graphs of their own."""
    values: list[VariableVersion] = []
    latest: dict[str, int] = {}
    reads: list[list[int]] = []
    writes: list[list[int]] = []

    def add(name: str) -> int:
        version = values[latest[name]].version + 1 if name in latest else 0
        values.append(VariableVersion(name, version, block._find_var_recursive(name)))
        latest[name] = len(values) - 1
        return latest[name]

    for op in block.ops:
        read = dict.fromkeys(op.input_arg_names)
        # what is read before any write comes from outside: it is version 0
        reads.append([latest[name] if name in latest else add(name) for name in read])
        writes.append([add(name) for name in dict.fromkeys(op.output_arg_names)])
    return BlockGraph(tuple(block.ops), tuple(values), tuple(reads), tuple(writes))


def value_label(value: VariableVersion) -> str:
    """The name, with the shape of a parameter on a second line."""
    if not value.is_parameter or value.var is None:
        return value.name
    return f"{value.name}\n{list(value.var.shape)}"
