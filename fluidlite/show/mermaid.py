"""Programs as Mermaid flowcharts, which GitHub and many notebooks draw: a subgraph a block."""

from __future__ import annotations

from collections.abc import Iterator

from fluidlite.ir.block import Block
from fluidlite.ir.program import Program
from fluidlite.show.graph import block_graph, value_label

__all__ = ["program_mermaid"]


def program_mermaid(program: Program) -> str:
    """The whole program; an op that runs other blocks has dotted arrows to them."""
    lines = ["flowchart TD"]
    for block in program.blocks:
        lines += _subgraph(block)
    # unlike in Graphviz, an arrow may go to a whole subgraph
    lines += [
        f"  op{block.idx}_{number} -.-> block{inner.idx}"
        for block in program.blocks
        for number, op in enumerate(block.ops)
        for inner in op.sub_blocks()
    ]
    lines += [
        "  classDef op fill:#303a3a,color:#fff,stroke:#303a3a",
        "  classDef param fill:#148b97,color:#fff,stroke:#148b97",
    ]
    return "\n".join(lines) + "\n"


def _subgraph(block: Block) -> Iterator[str]:
    graph = block_graph(block)
    yield f'  subgraph block{block.idx}["block {block.idx}"]'
    for index, value in enumerate(graph.values):
        style = ":::param" if value.is_parameter else ""
        yield f'    v{block.idx}_{index}(["{_escaped(value_label(value))}"]){style}'
    for number, op in enumerate(graph.ops):
        yield f'    op{block.idx}_{number}["{_escaped(op.type)}"]:::op'
        yield from (f"    v{block.idx}_{index} --> op{block.idx}_{number}" for index in graph.reads[number])
        yield from (f"    op{block.idx}_{number} --> v{block.idx}_{index}" for index in graph.writes[number])
    yield "  end"


def _escaped(text: str) -> str:
    """Mermaid reads `#35;` as the character 35; whatever could be markup to it is written so."""
    return "".join(map(_escaped_char, text))


def _escaped_char(char: str) -> str:
    if char == "\n":
        return "<br>"
    return char if char.isalnum() or char in " _.@[],/:-+" else f"#{ord(char)};"
