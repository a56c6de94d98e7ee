"""Which ops lie between inputs and targets, and which variables on the way get no gradient."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fluidlite.backward.rules import has_gradient
from fluidlite.backward.versions import Version, Versions
from fluidlite.base.registry import grad_name
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable

__all__ = [
    "dead_ends",
    "dead_gradients",
    "encloses",
    "find_path",
    "names_in",
    "stopped_gradients",
    "sub_block_path",
]


def stopped_gradients(program: Program) -> dict[int, set[str]]:
    """For each block the gradients of its variables that are marked `stop_gradient`."""
    return {
        block.idx: {grad_name(var.name) for var in block.vars.values() if var.stop_gradient}
        for block in program.blocks
    }


def encloses(outer: Block, inner: Block) -> bool:
    """True if `inner` is a block inside of `outer`."""
    block = inner.parent
    while block is not None and block is not outer:
        block = block.parent
    return block is not None


def names_in(block: Block, targets: Sequence[Variable]) -> set[str]:
    """Names in `block` that `targets` depend on, where the targets may live in a block inside of `block`."""
    inner = targets[0].block if targets else block
    # the targets stand outside of `block`, and nothing in it makes them
    if encloses(inner, block):
        return set()
    names = {target.name for target in targets}
    while inner.idx != block.idx:
        outer = inner.parent
        found = set[str]()
        assert outer is not None
        for op in reversed(inner.ops):
            if not names.isdisjoint(op.output_arg_names):
                names.update(op.input_arg_names)
                found.update(
                    name for name in op.input_arg_names if name not in inner.vars and name in outer.vars
                )
        inner, names = outer, found
    return names


def find_path(
    block: Block, targets: Sequence[Variable], inputs: Iterable[Variable], no_grad: set[str]
) -> list[Operator]:
    """The ops of `block` between `inputs` (none: everything) and `targets` that a gradient can go through.

    An input is the variable as it was first, a target as it is now. `no_grad` are names of variables where it
    stops; with `inputs`, stopped variables beside the path are added to it.
    """
    from_inputs = {var.name for var in inputs}
    versions = Versions(block)
    ops = list(block.ops)
    # forwards from the inputs first, then backwards from the targets: what both reach lies between
    restricted = bool(from_inputs)
    if restricted:
        ops = _reachable(versions, ops, set(map(versions.first, from_inputs)), no_grad)
    needed = {(name, versions.newest(name)) for name in names_in(block, targets)}
    path = _reaching(versions, ops, needed, no_grad)
    if restricted:
        for name in (name for op in path for name in op.input_arg_names if name not in from_inputs):
            var = block._find_var_recursive(name)
            if var is not None and var.stop_gradient:
                no_grad.add(name)
    return path


def _reachable(
    versions: Versions, ops: Iterable[Operator], known: set[Version], no_grad: set[str]
) -> list[Operator]:
    """The ops that depend on `known`, to which what they write is added."""
    found = []
    for op in ops:
        if has_gradient(op) and not known.isdisjoint(versions.reads(op)):
            known.update(made for made in versions.writes(op) if made[0] not in no_grad)
            found.append(op)
    return found


def _reaching(
    versions: Versions, ops: Sequence[Operator], needed: set[Version], no_grad: set[str]
) -> list[Operator]:
    """The ops that `needed` depend on."""
    found = []
    for op in reversed(ops):
        if has_gradient(op) and not needed.isdisjoint(versions.writes(op)):
            needed.update(read for read in versions.reads(op) if read[0] not in no_grad)
            found.append(op)
    return found[::-1]


def dead_ends(
    block: Block, path: Sequence[Operator], targets: Sequence[Variable], no_grad: set[str]
) -> set[str]:
    """Variables written on the path of which the targets depend on no version. What a sub-block writes is
    never among them.
    """
    versions = Versions(block)
    dead = _dead_versions(versions, path, targets, no_grad)
    needed = {name for op in path for name, version in versions.writes(op) if (name, version) not in dead}
    return {name for name, _ in dead} - needed


def dead_gradients(
    block: Block,
    path: Sequence[Operator],
    targets: Sequence[Variable],
    no_grad: set[str],
    incoming: Iterable[str],
) -> set[str]:
    """The gradients of the versions of variables that are written on the path, but that the targets do not
    depend on; `incoming` as for `Versions`.
    """
    versions = Versions(block, incoming)
    return {versions.gradient(*dead) for dead in _dead_versions(versions, path, targets, no_grad)}


def _dead_versions(
    versions: Versions, path: Sequence[Operator], targets: Sequence[Variable], no_grad: set[str]
) -> set[Version]:
    needed = {(name, versions.newest(name)) for name in names_in(versions.block, targets)}
    found = set()
    # backwards, so that what a later op reads is known to be needed
    for op in reversed(path):
        if not op.has_attr("sub_block"):
            for name, version in versions.writes(op):
                var = versions.block._find_var_recursive(name)
                is_dead = (name, version) not in needed and name not in op.input_arg_names
                if is_dead and var is not None and not var.stop_gradient:
                    found.add((name, version))
        needed.update(read for read in versions.reads(op) if read[0] not in no_grad)
    return found


def sub_block_path(block: Block, op: Operator, no_grad: set[str]) -> list[Operator]:
    """The ops of `op`'s sub-block that get gradients: all in a loop; in a branch, those that its results
    depend on.
    """
    # a loop's results depend on all of its ops, by way of the next step
    if op.definition is not None and op.definition.repeats:
        return block.ops
    versions = Versions(block, runner=op)
    results = {(name, versions.newest(name)) for name in op.output_arg_names}
    return _reaching(versions, block.ops, results, no_grad)
