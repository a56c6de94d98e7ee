"""Variables that a sub-block, or what runs around it, writes over before the gradient of its op is taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fluidlite.base.dtypes import is_float
from fluidlite.ir.attributes import OpRole
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.prune import writes

__all__ = ["forward_writes", "replaced_names", "rewinds", "rewound_names", "runner_of"]


def runner_of(block: Block) -> Operator | None:
    """The op that runs `block`; None for the outermost block, and while that op is not written yet."""
    around = block.parent
    ops: Sequence[Operator] = around.ops if around is not None else ()
    return next((op for op in ops if any(inner is block for inner in op.sub_blocks())), None)


def forward_writes(op: Operator) -> set[str]:
    """Names that `op` and its sub-blocks write. An update of a parameter is none: it is the same variable
    to all losses, those that are differentiated later included.
    """
    return set() if op.role & OpRole.Optimize else writes(op)


def rewinds(op: Operator, name: str) -> bool:
    """True if `op` counts `name` on in place, and its gradient op counts it back."""
    if op.definition is None or not op.definition.rewinds:
        return False
    var = op.block._find_var_recursive(name)
    # of a floating-point number, counting on and back is not the same number again
    is_whole = var is not None and not is_float(var.dtype)
    return is_whole and name in op.input_arg_names and name in op.output_arg_names


def rewound_names(block: Block, repeats: bool) -> set[str]:
    """Names that all their writers in `block` count on, so that the block's gradient counts them back.

    Of a block that does not `repeat`, only what its results depend on has gradient ops.
    """
    counted = {name for op in block.ops for name in op.output_arg_names if repeats and rewinds(op, name)}
    others = {name for op in block.ops for name in forward_writes(op) & counted if not rewinds(op, name)}
    return counted - others


def replaced_names(op: Operator) -> set[str]:
    """Names that hold something else when the gradient of `op`, a loop or branch, runs than when a step of
    it began.

    Counters that the gradient counts back are not among them.
    """
    body: Block = op.attrs["sub_block"]
    found = _replaced(body, body.ops, _repeats(op))
    runner = runner_of(op.block)
    repeats = runner is not None and _repeats(runner)
    found |= _replaced(op.block, _until_gradient(op), repeats)
    if runner is not None:
        # the frames of the block around show its outer variables as they were when its step began
        outer = _replaced(op.block, op.block.ops, repeats)
        found |= {name for name in outer if name not in op.block.vars}
    return found


def _repeats(op: Operator) -> bool:
    return op.definition is not None and op.definition.repeats


def _replaced(block: Block, ops: Iterable[Operator], repeats: bool) -> set[str]:
    return {name for op in ops for name in forward_writes(op)} - rewound_names(block, repeats)


def _until_gradient(op: Operator) -> list[Operator]:
    """The ops behind `op`, up to the first that reads its frames."""
    held = set(op.output(op.definition.frames)) if op.definition is not None else set()
    later = []
    for other in op.block.ops[op.idx + 1 :]:
        if not held.isdisjoint(other.input_arg_names):
            break
        later.append(other)
    return later
