"""Cutting a program down to what is needed: for given targets, for inference, for testing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from fluidlite.base import registry
from fluidlite.base.errors import NotFoundError, did_you_mean
from fluidlite.base.registry import grad_name
from fluidlite.ir.attributes import OpRole
from fluidlite.ir.operator import Operator
from fluidlite.ir.variable import Variable

if TYPE_CHECKING:
    from fluidlite.ir.block import Block
    from fluidlite.ir.program import Program

__all__ = [
    "inference_copy",
    "own_gradients",
    "prune",
    "prune_backward",
    "reads",
    "restore_outputs",
    "set_test_mode",
    "set_train_mode",
    "taken_in_blocks",
    "writes",
]


def reads(op: Operator) -> set[str]:
    """Names that `op` reads, its sub-blocks' reads of outer variables included."""
    names = set(op.input_arg_names)
    # an op that writes one entry of an array needs the others
    for slot in op.definition.updates if op.definition is not None else ():
        names.update(op.output(slot))
    own = own_gradients(op)
    for block in op.sub_blocks():
        names |= {name for inner in block.ops for name in reads(inner) if name not in block.vars} - own
    return names


def writes(op: Operator) -> set[str]:
    """Names that `op` writes, its sub-blocks' writes to outer variables included."""
    names = set(op.output_arg_names) | taken_from(op)
    own = own_gradients(op)
    for block in op.sub_blocks():
        names |= {name for inner in block.ops for name in writes(inner) if name not in block.vars} - own
    return names


def taken_from(op: Operator) -> set[str]:
    """Names of arrays out of which `op` takes an entry (`Op.takes`), as the gradient of a write does: what
    stood in the entry before must not get that gradient.
    """
    slots = op.definition.takes.items() if op.definition is not None else ()
    own = {name for slot, sign in slots if op.input(sign) for name in op.input(slot)}
    return own | taken_in_blocks(op)


def taken_in_blocks(op: Operator) -> set[str]:
    """Names of arrays out of which ops of the sub-blocks of `op` take entries."""
    names = set[str]()
    for block in op.sub_blocks():
        names |= {name for inner in block.ops for name in taken_from(inner) if name not in block.vars}
    return names


def own_gradients(op: Operator) -> set[str]:
    """Gradients that the sub-block of a gradient op has for itself, whatever is called so outside: the op
    puts in what comes in, and takes out what it finds.
    """
    if all(block.forward_block_idx < 0 for block in op.sub_blocks()):
        return set()
    states = (*op.attrs.get("states", ()), *op.attrs.get("ex_states", ()))
    return {grad_name(name) for name in (*op.input_arg_names, *states)}


def target_names(program: Program, targets: Sequence[Any]) -> list[str]:
    """The names among Variables, names and ops; NotFoundError for a name that the program lacks."""
    found: list[str] = []
    for target in targets:
        if isinstance(target, (Variable, str)):
            name = target if isinstance(target, str) else target.name
            known = program.global_block().vars
            if name not in known:
                raise NotFoundError(f"the program has no variable {name!r}{did_you_mean(name, known)}")
            found.append(name)
        elif not isinstance(target, Operator):
            raise ValueError(
                f"All targets of Program._prune_with_input() can only be Variable or Operator, not "
                f"{type(target)}."
            )
    return found


def needed_ops(
    ops: Sequence[Operator], targets: Iterable[str], feeds: Iterable[str] = (), roots: Iterable[Operator] = ()
) -> list[Operator]:
    """The ops that the variables `targets`, and the ops `roots`, depend on, given that `feeds` are fed, in
    order.

    An op needs what its inputs are where it stands: what is written behind it is of no use to it. Where an
    update of a parameter is a root, other updates are left out.
    """
    wanted = set(targets) - set(feeds)
    fed = set(feeds)
    rooted = {id(op) for op in roots}
    kept: list[Operator] = []
    for op in reversed(ops):
        # feed and fetch ops are put around a program anew for each run or model
        if id(op) not in rooted and (op.is_boundary or not _is_needed(op, wanted, bool(rooted))):
            continue
        kept.append(op)
        wanted |= reads(op) - fed
    return kept[::-1]


def _is_needed(op: Operator, wanted: set[str], updates_are_named: bool) -> bool:
    names = writes(op) & wanted
    if not (names and updates_are_named and op.role & OpRole.Optimize):
        return bool(names)
    # the penalty and the clipping of a gradient are needed by what is named; a parameter is there without
    # what updates it
    return not all(_is_persistable(op, name) for name in names)


def _is_persistable(op: Operator, name: str) -> bool:
    var = op.block._find_var_recursive(name)
    return var is not None and var.persistable


def prune(program: Program, targets: Any, feeds: Sequence[str] = ()) -> Program:
    """A copy that computes `targets` from `feeds` and holds nothing else."""
    for name in feeds:
        if not isinstance(name, str):
            raise ValueError(
                f"All feeded_var_names of Program._prune_with_input() can only be str, but received "
                f"{type(name)}."
            )
    listed = targets if isinstance(targets, (list, tuple)) else [targets]
    names = target_names(program, listed)
    block = program.global_block()
    roots = _standing_in(block, [target for target in listed if isinstance(target, Operator)])
    ops = block.ops
    if not any(op.role & OpRole.Optimize for op in roots):
        # a parameter is there without what updates it
        ops = [op for op in ops if not op.role & OpRole.Optimize]
    keep = {id(op) for op in needed_ops(ops, names, feeds, roots)}
    # by position: the ops of the copy are other objects
    flags = [id(op) in keep for op in block.ops]
    copy = program.clone()
    _keep_ops(
        copy.global_block(),
        [op for op, kept in zip(copy.global_block().ops, flags, strict=True) if kept],
        {*names, *feeds},
    )
    return copy


def _standing_in(block: Block, ops: Sequence[Operator]) -> list[Operator]:
    """The ops of a block that are, or whose sub-blocks run, the given ones."""
    wanted = {id(op) for op in ops}

    def holds(op: Operator) -> bool:
        return id(op) in wanted or any(holds(inner) for part in op.sub_blocks() for inner in part.ops)

    return [op for op in block.ops if holds(op)] if wanted else []


def _keep_ops(block: Block, ops: list[Operator], extra: set[str]) -> None:
    """Reduce the global block to `ops`, and to the variables that they or `extra` name."""
    block.set_ops(ops)
    used = set(extra)
    for op in ops:
        used |= set(op.input_arg_names) | set(op.output_arg_names) | reads(op) | writes(op)
    block.vars = {name: var for name, var in block.vars.items() if name in used}
    block.program.bump_version()


def prune_backward(program: Program) -> None:
    """Drop the ops of the backward pass, the optimizer and the learning rate, and what only they used (in
    place).

    A program without a loss or an optimizer keeps everything, as in 1.8.5: the gradients that `gradients`
    makes are computed in the copy for tests, too, and a schedule that was made before `minimize` goes into
    it, and counts steps there.
    """
    block = program.global_block()
    trained = OpRole.Backward | OpRole.Optimize
    if not any(op.role & (OpRole.Loss | OpRole.Optimize) for op in block.ops):
        return
    kept = [op for op in block.ops if not op.role & (trained | OpRole.LRSched)]
    _keep_ops(block, kept, set())
    _drop_unused_blocks(program)


def _drop_unused_blocks(program: Program) -> None:
    """Drop the blocks that no op runs, and number the rest anew."""
    used: list[Block] = []
    stack = [program.global_block()]
    while stack:
        used.append(stack.pop())
        stack += [inner for op in used[-1].ops for inner in op.sub_blocks()]
    kept = [block for block in program.blocks if any(block is other for other in used)]
    numbers = {block.idx: number for number, block in enumerate(kept)}
    for block in kept:
        block.idx, block.parent_idx = numbers[block.idx], numbers.get(block.parent_idx, -1)
        block.forward_block_idx = numbers.get(block.forward_block_idx, -1)
    program.blocks = kept
    program.current_block_idx = numbers.get(program.current_block_idx, 0)


def set_test_mode(program: Program) -> None:
    """Switch every op that has an `is_test` attribute to inference (in place)."""
    for block in program.blocks:
        for op in block.ops:
            if op.definition is not None and "is_test" in op.definition.attr_defs:
                op._set_attr("is_test", True)
            if (
                op.type.removeprefix("sync_") == "batch_norm"
                and "use_global_stats" in op.attrs
                and op.attrs["use_global_stats"]
            ):
                op._set_attr("is_test", True)


def set_train_mode(program: Program) -> list[Operator]:
    """Switch every op in test mode back to training (in place); the ops that compute something else then."""
    changed = []
    for block in program.blocks:
        for op in block.ops:
            if op.definition is not None and op.attrs.get("is_test", False):
                op._set_attr("is_test", False)
                # it draws, or goes on with statistics of its own
                if op.definition.random or set(op.input_arg_names) & set(op.output_arg_names):
                    changed.append(op)
    return changed


def restore_outputs(program: Program) -> None:
    """Give ops the outputs that their gradient ops read, such as a mask, and that inference files leave out
    (in place).
    """
    for block in program.blocks:
        for op in block.ops:
            gradient = registry.find(op.definition.grad_type) if op.definition is not None else None
            if op.definition is None or gradient is None:
                continue
            missing = [
                slot for slot in op.definition.outputs if slot in gradient.inputs and not op.output(slot)
            ]
            for slot in missing:
                name = f"{op.output_arg_names[0]}.{slot.lower()}"
                op.set_output(slot, [block.create_var(name=name).name])
            if missing:
                op.infer()


def inference_copy(program: Program, prune_read_op: bool = True) -> Program:
    """A copy in test mode, without the ops in front of the last `read` op when `prune_read_op`, and with
    plain reads.
    """
    copy = program.clone()
    copy.random_seed = 0  # fluid makes this copy from bytes, and those have no seed
    block = copy.global_block()
    if prune_read_op:
        reads_at = [i for i, op in enumerate(block.ops) if op.type == "read"]
        last = reads_at[-1] + 1 if reads_at else 0
        block.set_ops(block.ops[last:])
        block.vars = {name: var for name, var in block.vars.items() if var.type.name != "READER"}
    set_test_mode(copy)
    copy.bump_version()
    return copy
