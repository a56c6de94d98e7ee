"""Edits of a list of gradient ops: sums of partial gradients, dead and disconnected branches."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from fluidlite.backward.rules import forward_name, helper_op, is_gradient, reads_of, rename
from fluidlite.base.gradient_names import variable_of
from fluidlite.base.records import dataclass
from fluidlite.base.registry import EMPTY_VAR, GRAD_SUFFIX
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.prune import taken_in_blocks

__all__ = ["GivenGradients", "add_up", "cut_dead_branches", "cut_disconnected", "drop_beyond", "like_of"]


# ---------------------------------------------------------------------- partial gradients
@dataclass
class _Partials:
    """The names that hold parts of one gradient so far; `first` is the op that wrote the first one, -1 where
    that comes in from outside.
    """

    names: list[str] = field(default_factory=list)
    first: int = 0
    renamed: int = 0
    is_made: bool = False
    """True if a part will be there when the ops run."""
    is_helped: bool = False
    """True if a helper in front of the op `first` wrote the first part."""


class _Accumulator:
    """Goes through gradient ops in order, gives every further writer of a gradient its own name, and sums
    before a reader.
    """

    def __init__(
        self, ops: list[Operator], block_idx: int, incoming: GivenGradients, unmade: set[Operator]
    ) -> None:
        self.ops = ops
        self.block_idx = block_idx
        self.unmade = unmade
        self.replaced = {part: name for name, part in incoming.started.items() if part in incoming.replaced}
        self.partials: dict[str, _Partials] = defaultdict(_Partials)
        for name, part in incoming.started.items():
            self.partials[name] = _Partials([part], first=-1, is_made=True)
        self.helpers: list[tuple[int, Operator]] = []  # (position, op)

    def run(self) -> list[Operator]:
        """The ops with the sums among them."""
        for index, op in enumerate(self.ops):
            own = set(reads_of(op))
            # a reader needs the whole gradient: what has come in so far is summed in front of it
            for name in reads_of(op):
                self._complete(name, index)
                if self.partials[name].names not in ([], [name]):
                    op._rename_input(name, self.partials[name].names[0])
            for slot in op.outputs:
                for position, name in enumerate(op.outputs[slot]):
                    if is_gradient(name) and name != EMPTY_VAR:
                        self._write(index, slot, position, name, name in own)
        # parts that no op reads are summed at the end: they are gradients of parameters, or asked for
        for name in list(self.partials):
            if self.partials[name].first >= 0 or len(self.partials[name].names) > 1:
                self._complete(name, len(self.ops))
        for name in sorted(self.replaced):
            self._complete(name, len(self.ops), last=True)
        return self._merged()

    def _complete(self, name: str, index: int, last: bool = False) -> None:
        """Let `name` be all of the gradient in front of the op at `index`."""
        partials = self.partials[name]
        # under this name something else came in, which is used up
        if name in self.replaced and not partials.is_made:
            self._help(index, "fill_zeros_like", [variable_of(name)], name, {})
            self.partials[name] = _Partials([name], index, partials.renamed, is_made=True, is_helped=True)
        elif len(partials.names) > 1 or (last and partials.names != [name]):
            self._help(index, "sum", partials.names, name, {"use_mkldnn": False})
            partials.names = [name]

    def _help(self, index: int, type: str, read: list[str], name: str, attrs: dict[str, bool]) -> None:
        like = self.ops[min(index, len(self.ops) - 1)]
        self.helpers.append((index, helper_op(like.block, like, type, {"X": read}, {"Out": [name]}, attrs)))

    def _merged(self) -> list[Operator]:
        waiting = deque(self.helpers)
        merged = []
        for index, op in enumerate(self.ops):
            while waiting and waiting[0][0] == index:
                merged.append(waiting.popleft()[1])
            merged.append(op)
        return merged + [op for _, op in waiting]

    def _write(self, index: int, slot: str, position: int, name: str, is_read: bool) -> None:
        op = self.ops[index]
        partials = self.partials[name]
        is_made, partials.is_made = partials.is_made, partials.is_made or op not in self.unmade
        # an op that reads the gradient that it writes goes on from it, and adds no part; so does one that
        # writes an entry of an array that has come in
        updated = op.definition.updates if op.definition is not None else ()
        if partials.names and (is_read or (slot in updated and partials.first < 0)):
            if partials.names != [name]:
                partials.names, partials.first = [name], index
            return
        if not partials.names or (name in self.replaced and not is_made):
            # parts so far come from nothing, and will be dropped
            if partials.names == [name]:
                self._rename_first(partials, index, name, self._next(name))
            partials.names = []
            partials.first, partials.is_helped = index, False
            if not self._is_needed(self.replaced.get(name), index):
                partials.names = [name]
                return
        if partials.names == [name] and partials.first >= 0:
            # the first part had the plain name as long as it was the only one
            new = self._next(name)
            partials.names[0] = new
            self._rename_first(partials, index, name, new)
            self._rename_earlier_outputs(op, slot, position, name, new)
        new = self._next(name)
        op.outputs[slot][position] = new
        partials.names.append(new)

    def _is_needed(self, newer: str | None, index: int) -> bool:
        """True if an op behind `index` reads the gradient `newer`, which came in under the name that is
        written now.
        """
        return newer is not None and any(newer in op.input_arg_names for op in self.ops[index + 1 :])

    def _rename_first(self, partials: _Partials, index: int, name: str, new: str) -> None:
        """Rename a gradient from where its first part is written to in front of the op at `index`."""
        first = partials.first
        if not partials.is_helped:
            # what the op reads under this name came in for a newer version
            if first < index:  # the outputs of the op of now are renamed one by one
                self.ops[first]._rename_output(name, new)
            first += 1
        rename(self.ops[first:index], name, new)
        rename([op for at, op in self.helpers if at >= partials.first], name, new)

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


class GivenGradients(NamedTuple):
    """Gradients that come in from outside of a list of gradient ops.

    started: gradient -> the name of the part of it that comes in. replaced: those under whose name another
    comes in, that of a newer version.
    """

    started: Mapping[str, str]
    replaced: Collection[str] = ()


NOTHING = GivenGradients({})


def add_up(ops: list[Operator], block_idx: int, incoming: GivenGradients = NOTHING) -> list[Operator]:
    """Rename gradients that several ops write to `x@GRAD@RENAME@block0@0`, ... and sum them where they are
    needed.
    """
    return _Accumulator(ops, block_idx, incoming, _unmade(ops, incoming)).run()


def _unmade(ops: Iterable[Operator], incoming: GivenGradients) -> set[Operator]:
    """The ops that compute from gradients none of which exists: they will be dropped."""
    made = set(incoming.started)
    found = set()
    for op in ops:
        read = reads_of(op)
        if read and made.isdisjoint(read):
            found.add(op)
        else:
            made.update(op.output_arg_names)
    return found


# ---------------------------------------------------------------------- dead branches
def _is_dead(op: Operator, no_grad: set[str]) -> bool:
    """True if all gradients that `op` makes, or all that it reads, must not be made."""
    written = op.output_arg_names
    read = reads_of(op)
    if no_grad.issuperset(written):
        return not taken_in_blocks(op)
    if read and no_grad.issuperset(read):
        no_grad.update(written)
        return True
    return False


def drop_beyond(op: Operator, is_missing: Callable[[str], bool]) -> None:
    """Empty the slots that Paddle's op lacks (`Op.beyond`) where their gradients are missing."""
    for slot in op.definition.beyond if op.definition is not None else ():
        if all(map(is_missing, op.inputs.get(slot, ()))):
            op.inputs.pop(slot, None)


def like_of(gradient: str, block: Block) -> str:
    """A variable of the shape of `gradient`: the forward one, as in Paddle, or else a gradient of an earlier
    pass.
    """
    forward, exact = variable_of(gradient), gradient.removesuffix(GRAD_SUFFIX)
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
            if name in no_grad and op.sub_blocks():
                # a branch that is not taken gives its variable no value, of whose shape zeros could be
                op._rename_input(name, EMPTY_VAR)
            elif name in no_grad:
                # zeros instead of an empty slot: the gradient op expects a gradient for each of its outputs
                like = {"X": [like_of(name, op.block)]}
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
    ops: Sequence[Operator],
    forward: Iterable[Operator],
    given: Iterable[str] = (),
    is_needed: Callable[[str], bool] | None = None,
) -> list[Operator]:
    """Without the parts that start from gradients that no op makes, that touch nothing else, and that make no
    gradient of a variable that `is_needed`.

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
    cut = set[int]()
    for part in map(_lone_part, heads):
        made = {forward_name(name) for node in part for name in node.op.output_arg_names}
        if is_needed is None or not any(map(is_needed, made)):
            cut.update(id(node.op) for node in part)
    return [op for op in ops if id(op) not in cut] if len(cut) < len(ops) else list(ops)
