"""A program as a notebook shows it: a table of ops for each block, without scripts."""

from __future__ import annotations

import html

from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ir.printing import role_text
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Parameter

__all__ = ["program_cell"]

_STYLE = "text-align:left;padding:2px 10px;vertical-align:top"
_MONO = f"{_STYLE};font-family:monospace"
_COLOURS = (
    (OpRole.RPC | OpRole.Dist, "#bd3f6c"),
    (OpRole.Optimize | OpRole.LRSched, "#3f9150"),
    (OpRole.Backward, "#c77b30"),
)
_FORWARD = "#4a78b8"
_MOST = 2000


def program_cell(program: Program) -> str:
    """HTML of the whole program; the first block is open. Blocks beyond 2000 ops are cut there."""
    ops = sum(len(block.ops) for block in program.blocks)
    parameters = sum(isinstance(var, Parameter) for var in program.list_vars())
    blocks = _count(len(program.blocks), "block")
    head = f"Program: {_count(ops, 'op')} in {blocks}, {_count(parameters, 'parameter')}"
    return f"<div><strong>{head}</strong>{''.join(map(_block, program.blocks))}</div>"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _block(block: Block) -> str:
    rows = "".join(_row(number, op) for number, op in enumerate(block.ops[:_MOST]))
    more = f"<p>... and {len(block.ops) - _MOST} more ops</p>" if len(block.ops) > _MOST else ""
    heads = "".join(
        f'<th style="{_STYLE}">{head}</th>' for head in ("", "op", "writes", "reads", "role", "line")
    )
    return (
        f"<details{' open' if block.idx == 0 else ''}><summary>block {block.idx}: "
        f"{_count(len(block.ops), 'op')}</summary>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>{more}</details>"
    )


def _row(number: int, op: Operator) -> str:
    # the first that fits: an op may have several roles
    colour = next((colour for flags, colour in _COLOURS if op.role & flags), _FORWARD)
    type_cell = f'<td style="{_MONO};border-left:3px solid {colour}"><b>{html.escape(op.type)}</b></td>'
    slots = "".join(
        f'<td style="{_MONO}">{html.escape(", ".join(names))}</td>'
        for names in (op.output_arg_names, op.input_arg_names)
    )
    role = role_text(int(op.role)) if op.role else "Forward"
    return (
        f'<tr><td style="{_STYLE}">{number}</td>{type_cell}{slots}<td style="{_STYLE}">{role}</td>'
        f'<td style="{_STYLE}">{html.escape(str(op.where or ""))}</td></tr>'
    )
