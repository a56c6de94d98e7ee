"""Checks of the tree of blocks: parents that exist, no block that runs itself, a depth that can be run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fluidlite.base.errors import FormatError, UnsupportedError

if TYPE_CHECKING:
    from fluidlite.ir.block import Block
    from fluidlite.ir.operator import Operator
    from fluidlite.ir.program import Program

__all__ = ["check_blocks", "check_depth", "check_parents"]

MAX_NESTED_OPS = 1 << 22
MAX_DEPTH = 200  # of loops and branches in each other, whose readers call themselves for each


def check_parents(program: Program) -> None:
    """FormatError where a block's parent or forward block is none of the program's, or the parents go in a
    circle.
    """
    count = len(program.blocks)
    rooted = {-1}
    for block in program.blocks:
        if not -1 <= block.parent_idx < count or not -1 <= block.forward_block_idx < count:
            raise FormatError(
                f"block {block.idx} of {count} names block {block.parent_idx} as its parent and block "
                f"{block.forward_block_idx} as its forward block"
            )
    for block in program.blocks:
        path: set[int] = set()
        index = block.idx
        while index not in rooted:
            if index in path:
                raise FormatError(f"block {index} is its own ancestor")
            path.add(index)
            index = program.blocks[index].parent_idx
        rooted |= path


def check_blocks(program: Program) -> None:
    """FormatError where a block runs itself, directly or through others, or so many others that no walk would
    end.

    Ops that share a sub-block double the ops below them: 60 nested pairs would be 2**60 ops to whoever walks
    them.
    """
    sizes: dict[int, int] = {}
    entered: set[int] = set()
    stack = [block.idx for block in program.blocks]
    while stack:
        index = stack.pop()
        if index in sizes:
            continue
        kids = [kid.idx for op in program.blocks[index].ops for kid in op.sub_blocks()]
        # a stack instead of recursion: a hostile file may nest deeper than Python's stack
        waiting = [kid for kid in set(kids) if kid not in sizes]
        if index in entered and waiting:
            raise FormatError(f"block {index} runs itself")
        entered.add(index)
        if waiting:
            stack.extend([index, *waiting])
            continue
        sizes[index] = len(program.blocks[index].ops) + sum(sizes[kid] for kid in kids)
        if sizes[index] > MAX_NESTED_OPS:
            raise FormatError(f"block {index} unfolds into more than {MAX_NESTED_OPS} ops")


def check_depth(program: Program) -> None:
    """UnsupportedError where loops and branches stand deeper in each other than can be run."""
    # what has fewer blocks cannot be deeper: for nearly all programs this is the whole check
    if len(program.blocks) <= MAX_DEPTH + 1:
        return
    depth = 0
    level: list[Operator] = list(program.global_block().ops)
    while level := _holders(level):
        depth += 1
        if depth > MAX_DEPTH:
            op = level[0]
            raise UnsupportedError(
                f"op {op.type!r} is nested in more than {MAX_DEPTH} loops and branches, which is "
                f"the limit\n  built at {op.where}"
            )
        level = [inner for block in _blocks_of(level) for inner in block.ops]


def _holders(ops: Iterable[Operator]) -> list[Operator]:
    """The ops that run other blocks."""
    return [op for op in ops if op.sub_blocks()]


def _blocks_of(ops: Iterable[Operator]) -> list[Block]:
    """The blocks that some ops run, each once: ops may share them."""
    return list({block.idx: block for op in ops for block in op.sub_blocks()}.values())
