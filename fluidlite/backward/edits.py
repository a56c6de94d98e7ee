"""Edits of a list of gradient ops: sums of partial gradients, dead and disconnected branches, old values."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fluidlite import unique_name
from fluidlite.backward.rules import forward_name, helper_op, is_gradient, reads_of, rename
from fluidlite.base.dtypes import VarType, is_float
from fluidlite.base.registry import EMPTY_VAR, GRAD_SUFFIX
from fluidlite.ir.block import Block
from fluidlite.ir.operator import ROLE_ATTR, Operator, OpRole

__all__ = ["add_up", "cut_dead_branches", "cut_disconnected", "drop_beyond", "keep_overwritten"]


# ---------------------------------------------------------------------- partial gradients
@dataclass
class _Partials:
    """The names that hold parts of one gradient so far; `first` is the op that wrote the first one."""

    names: list[str] = field(default_factory=list)
    first: int = 0
    renamed: int = 0


class _Accumulator:
    """Goes through gradient ops in order, gives every further writer of a gradient its own name, and sums
    before a reader.
    """

    def __init__(self, ops: list[Operator], block_idx: int) -> None:
        self.ops = ops
        self.block_idx = block_idx
        self.partials: dict[str, _Partials] = defaultdict(_Partials)
        self.sums: list[tuple[int, Operator]] = []  # (position, op)

    def run(self) -> list[Operator]:
        """The ops with the sums among them."""
        for index, op in enumerate(self.ops):
            # a reader needs the whole gradient: what has come in so far is summed in front of it
            for name in reads_of(op):
                if len(self.partials[name].names) > 1:
                    self._sum(name, index)
                    self.partials[name].names = [name]
            for slot in op.outputs:
                for position, name in enumerate(op.outputs[slot]):
                    # an op that reads the gradient that it writes goes on from it, and adds no part
                    if is_gradient(name) and name != EMPTY_VAR and name not in op.input_arg_names:
                        self._write(index, slot, position, name)
        # parts that no op reads are summed at the end: they are gradients of parameters, or asked for
        for name, partials in self.partials.items():
            if len(partials.names) > 1:
                self._sum(name, len(self.ops))
        return self._merged()

    def _sum(self, name: str, index: int) -> None:
        like = self.ops[min(index, len(self.ops) - 1)]
        op = helper_op(
            like.block, like, "sum", {"X": self.partials[name].names}, {"Out": [name]}, {"use_mkldnn": False}
        )
        self.sums.append((index, op))

    def _merged(self) -> list[Operator]:
        waiting = deque(self.sums)
        merged = []
        for index, op in enumerate(self.ops):
            while waiting and waiting[0][0] == index:
                merged.append(waiting.popleft()[1])
            merged.append(op)
        return merged + [op for _, op in waiting]

    def _write(self, index: int, slot: str, position: int, name: str) -> None:
        partials = self.partials[name]
        if not partials.names:
            partials.names = [name]
            partials.first = index
            return
        if len(partials.names) == 1:
            # the first part had the plain name as long as it was the only one
            new = self._next(name)
            partials.names[0] = new
            rename(self.ops[partials.first : index], name, new)
            rename([op for _, op in self.sums], name, new)
            self._rename_earlier_outputs(self.ops[index], slot, position, name, new)
        new = self._next(name)
        self.ops[index].outputs[slot][position] = new
        partials.names.append(new)

    def _next(self, name: str) -> str:
        number = self.partials[name].renamed
        self.partials[name].renamed += 1
        # 1.8.5's name for a partial gradient
        return f"{name}@RENAME@block{self.block_idx}@{number}"

    @staticmethod
    def _rename_earlier_outputs(op: Operator, slot: str, position: int, old: str, new: str) -> None:
        """Give the first output of an op that writes one gradient twice the new name too."""
        for other, names in op.outputs.items():
            stop = position if other == slot else len(names)
            names[:stop] = [new if name == old else name for name in names[:stop]]
            if other == slot:
                return


def add_up(ops: list[Operator], block_idx: int) -> list[Operator]:
    """Rename gradients that several ops write to `x@GRAD@RENAME@block0@0`, ... and sum them where they are
    needed.
    """
    return _Accumulator(ops, block_idx).run()


# ---------------------------------------------------------------------- dead branches
def _is_dead(op: Operator, no_grad: set[str]) -> bool:
    """True if all gradients that `op` makes, or all that it reads, must not be made."""
    written = op.output_arg_names
    read = reads_of(op)
    if no_grad.issuperset(written):
        return True
    if read and no_grad.issuperset(read):
        no_grad.update(written)
        return True
    return False


def drop_beyond(op: Operator, is_missing: Callable[[str], bool]) -> None:
    """Empty the slots that Paddle's op lacks (`Op.beyond`) where their gradients are missing."""
    for slot in op.definition.beyond if op.definition is not None else ():
        if all(map(is_missing, op.inputs.get(slot, ()))):
            op.inputs.pop(slot, None)


def _like(gradient: str, block: Block) -> str:
    """A variable of the shape of `gradient`: the forward one, as in Paddle, or else a gradient of an earlier
    pass.
    """
    forward, exact = forward_name(gradient), gradient.removesuffix(GRAD_SUFFIX)
    found, wanted = (block._find_var_recursive(name) for name in (forward, exact))
    if found is None or (wanted is not None and wanted.shape != found.shape):
        return exact
    return forward


def cut_dead_branches(ops: Iterable[Operator], no_grad: set[str]) -> list[Operator]:
    """Without the ops that only make gradients in `no_grad`, or make theirs from such; the others read
    zeros instead.
    """
    kept: list[Operator] = []
    for op in [op for op in ops if not _is_dead(op, no_grad)]:
        drop_beyond(op, no_grad.__contains__)
        for name in reads_of(op):
            if name in no_grad:
                # zeros instead of an empty slot: the gradient op expects a gradient for each of its outputs
                like = {"X": [_like(name, op.block)]}
                kept.append(helper_op(op.block, op, "fill_zeros_like", like, {"Out": [name]}, {}))
        kept.append(op)
    return kept


# ---------------------------------------------------------------------- disconnected parts
class _GradientVersion:
    """One version of a variable, with the ops that read it."""

    def __init__(self) -> None:
        self.readers: list[_GradientOp] = []


class _GradientOp:
    """A gradient op with the versions that it reads and writes."""

    def __init__(self, op: Operator, latest: dict[str, _GradientVersion]) -> None:
        self.op = op
        self.inputs = [latest.setdefault(name, _GradientVersion()) for name in op.input_arg_names]
        for value in self.inputs:
            value.readers.append(self)
        self.outputs = [_GradientVersion() for _ in op.output_arg_names]
        latest.update(zip(op.output_arg_names, self.outputs, strict=True))


def _lone_part(head: _GradientOp) -> set[_GradientOp]:
    """`head` and all ops that depend on it, if they read nothing else; otherwise an empty set."""
    ready = set(head.inputs)
    part = {head}
    queue = deque([head])
    while queue:
        node = queue.popleft()
        # something that is kept feeds into the part, so all of it stays
        if not node.inputs or not ready.issuperset(node.inputs):
            return set()
        queue.extend(reader for value in node.outputs for reader in value.readers if reader not in part)
        part.update(reader for value in node.outputs for reader in value.readers)
        ready.update(node.outputs)
    return part


def cut_disconnected(
    ops: Sequence[Operator], forward: Iterable[Operator], given: Iterable[str] = ()
) -> list[Operator]:
    """Without the parts that start from gradients that no op makes and that touch nothing else.

    `given` are gradients known to exist. If nothing would be left, everything is kept.
    """
    known = {name for op in forward for name in (*op.input_arg_names, *op.output_arg_names)} | set(given)
    latest: dict[str, _GradientVersion] = {}
    heads = []
    for op in ops:
        node = _GradientOp(op, latest)
        if known.isdisjoint(op.input_arg_names):
            heads.append(node)
        known.update(op.output_arg_names)
    cut = {id(node.op) for head in heads for node in _lone_part(head)}
    return [op for op in ops if id(op) not in cut] if len(cut) < len(ops) else list(ops)


# ---------------------------------------------------------------------- overwritten variables
def _overwriters(block: Block) -> dict[str, list[int]]:
    """For each plain variable of `block` the positions of the ops that write it."""
    writers: dict[str, list[int]] = defaultdict(list)
    for index, op in enumerate(block.ops):
        for name in set(op.output_arg_names):
            var = block.vars.get(name)
            plain = (
                var is not None
                and not var.persistable
                and var.type == VarType.LOD_TENSOR
                and is_float(var.dtype)
            )
            if plain and not is_gradient(name):
                writers[name].append(index)
    return writers


def keep_overwritten(block: Block, ops: Iterable[Operator], forward_of: Mapping[Operator, Operator]) -> int:
    """Let gradient ops read the values that their forward ops saw, where a later op overwrites a variable.

    A loop overwrites its loop variables. An `assign` in front of it keeps the value; returns how many were
    inserted. (Ops with sub-blocks keep what they need themselves. Paddle reads the new value and gives wrong
    gradients.)
    """
    writers = _overwriters(block)
    position = {op: index for index, op in enumerate(block.ops)}
    copies: dict[tuple[int, str], str] = {}
    for op in ops:
        forward = forward_of.get(op)
        if forward is None or forward not in position or forward.sub_blocks():
            continue
        for name in set(op.input_arg_names) & writers.keys():
            later = [index for index in writers[name] if index > position[forward]]
            # an op in place undoes its change by itself, as increment does
            if later and not (name in forward.input_arg_names and name in forward.output_arg_names):
                key = (later[0], name)
                copies[key] = copies.get(key) or unique_name.generate(name + "@BEFORE")
                op._rename_input(name, copies[key])
    # from the end, so that the positions in front of an insertion stay what they are
    for (index, name), copy in sorted(copies.items(), reverse=True):
        like = block.ops[index]
        var = block.vars[name]
        block.create_var(
            name=copy, shape=var.shape, dtype=var.dtype, lod_level=var.lod_level, stop_gradient=True
        )
        keeper = helper_op(
            block, like, "assign", {"X": [name]}, {"Out": [copy]}, {ROLE_ATTR: int(OpRole.Forward)}
        )
        block.adopt(index, keeper)
    return len(copies)
