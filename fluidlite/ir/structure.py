"""Checks of the tree of blocks: parents that exist, and no block that runs itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.base.errors import FormatError

if TYPE_CHECKING:
    from fluidlite.ir.program import Program

__all__ = ["check_blocks", "check_parents"]

MAX_NESTED_OPS = 1 << 22


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
