"""Programs as graphs for Graphviz (`dot -Tsvg program.dot`): a cluster a block, boxes for ops, rounded
boxes for values.
"""

from __future__ import annotations

from collections.abc import Iterator

from fluidlite.base.plain_text import in_graph
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ir.program import Program
from fluidlite.show.graph import block_graph, value_label

__all__ = ["program_dot"]

_FILL = {
    "Forward": "#dfe7f5",
    "Backward": "#f3e3d3",
    "Optimize": "#dcefdc",
    "RPC": "#f6d5dc",
    "parameter": "#148b97",
    "value": "#f4f4f2",
}


def program_dot(program: Program) -> str:
    """The whole program; an op that runs other blocks has a dashed arrow to the first op of each."""
    lines = [
        "digraph program {",
        (
            '  compound=true; rankdir="TB"; node [fontname="Helvetica", fontsize=11, style="filled", '
            'color="#777777"];'
        ),
    ]
    for block in program.blocks:
        lines += _cluster(block)
    # Graphviz draws arrows between nodes only: this one is cut off at the cluster of the node it goes to
    lines += [
        f"  op{block.idx}_{number} -> op{inner.idx}_0 [style=dashed, lhead=cluster_{inner.idx}];"
        for block in program.blocks
        for number, op in enumerate(block.ops)
        for inner in op.sub_blocks()
        if inner.ops
    ]
    return "\n".join([*lines, "}"]) + "\n"


def _cluster(block: Block) -> Iterator[str]:
    graph = block_graph(block)
    style = 'color="#bbbbbb"; fontname="Helvetica";'
    yield f'  subgraph cluster_{block.idx} {{ label="block {block.idx}"; {style}'
    for index, value in enumerate(graph.values):
        fill = _FILL["parameter" if value.is_parameter else "value"]
        ink = "white" if value.is_parameter else "black"
        yield (
            f'    v{block.idx}_{index} [shape=box, style="rounded,filled", '
            f"label={in_graph(value_label(value))}, "
            f'fillcolor="{fill}", fontcolor={ink}];'
        )
    for number, op in enumerate(graph.ops):
        node = f"op{block.idx}_{number}"
        # ids are numbers: names of variables may hold anything, and several versions share one
        yield f'    {node} [shape=box, label={in_graph(op.type)}, fillcolor="{_FILL[_role(op)]}"];'
        yield from (f"    v{block.idx}_{index} -> {node};" for index in graph.reads[number])
        yield from (f"    {node} -> v{block.idx}_{index};" for index in graph.writes[number])
    yield "  }"


def _role(op: Operator) -> str:
    """The role that an op is coloured by; the first that fits, since an op may have several."""
    if op.role & (OpRole.RPC | OpRole.Dist):
        return "RPC"
    if op.role & (OpRole.Optimize | OpRole.LRSched):
        return "Optimize"
    return "Backward" if op.role & OpRole.Backward else "Forward"
