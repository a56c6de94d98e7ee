"""Writing the gradient ops of a block into a program, and declaring the variables that they make."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

from fluidlite import unique_name
from fluidlite.backward.edits import (
    GivenGradients,
    add_up,
    cut_dead_branches,
    cut_disconnected,
    drop_beyond,
    like_of,
)
from fluidlite.backward.outputs import add_left_outputs, add_saved_outputs
from fluidlite.backward.paths import sub_block_path
from fluidlite.backward.rules import GradientContext, forward_name, helper_op, is_gradient, reads_of
from fluidlite.backward.versions import Versions
from fluidlite.base.dtypes import VarType, is_float
from fluidlite.base.records import dataclass
from fluidlite.base.registry import EMPTY_VAR, grad_name
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ir.program import Program
from fluidlite.ir.prune import own_gradients, taken_in_blocks

__all__ = ["Backward", "Callback", "declare_gradients", "like_forward", "rename_known_gradients"]

Callback = Callable[..., Any]
_WRITES_FROM_NOTHING = "rnn_memory_helper_grad"  # its input is put in place by recurrent_grad while it runs


class SubBlockRun(NamedTuple):
    """The op that runs a sub-block, and which of the variables that it writes have a value before it."""

    op: Operator
    older: Collection[str]

    def leaves(self, replaced: Collection[str]) -> set[str]:
        """Those of the gradients `replaced` that are to be those of the oldest versions in the end: outside
        of a loop, and in its step before.
        """
        assert self.op.definition is not None
        if self.op.definition.repeats:
            return set(replaced)
        return {name for name in replaced if forward_name(name) in self.older}


@dataclass
class Backward:
    """State of one call of `append_backward` or `gradients`.

    no_grad: block -> gradients that must not be made. grad_of: gradient -> the variable that it belongs to.
    given: gradients that exist, when a program gets gradients for a second time; None the first time.
    """

    program: Program
    no_grad: dict[int, set[str]]
    callbacks: Sequence[Callback] = ()
    given: set[str] | None = None
    grad_of: dict[str, Any] = field(default_factory=dict)
    forward_of: dict[Operator, Operator] = field(default_factory=dict)
    made: dict[Block, set[str]] = field(
        default_factory=dict
    )  # what the ops written so far make, by their block
    added: dict[Block, int] = field(default_factory=dict)  # how many forward ops were put into a block

    def __post_init__(self) -> None:
        # later gradients of single versions are added that lead nowhere
        self._stopped = {idx: frozenset(names) for idx, names in self.no_grad.items()}

    def append(
        self,
        block: Block,
        path: Sequence[Operator],
        target: Block,
        incoming: Sequence[str] = (),
        runner: SubBlockRun | None = None,
    ) -> None:
        """Write the gradient ops of `path`, ops of `block`, into `target`.

        `incoming` are variables whose gradients, or parts of them, are there already, and `runner` runs
        `block`.
        """
        versions = Versions(block, incoming, None if runner is None else runner.op)
        no_grad = self.no_grad[block.idx]
        renamed: dict[str, str] = {}
        ops = self._gradient_ops(versions, path, renamed)
        no_grad.update([renamed[name] for name in no_grad if name in renamed])
        started = versions.started()
        started.update((new, started[old]) for old, new in renamed.items() if old in started)
        replaced = versions.replaced() if runner is None else runner.leaves(versions.replaced())
        # in 1.8.5's order: the numbers of partial gradients count those that are cut off afterwards
        ops = add_up(ops, block.idx, GivenGradients(started, replaced))
        values = self._values(block, no_grad) - {*started, *started.values()}
        no_grad -= values
        ops = cut_dead_branches(ops, no_grad)
        no_grad |= values
        known = {*versions.names, *(self.given or ()), *(started.values() if runner is None else ())}
        ops = cut_disconnected(ops, path, known, lambda name: self._is_outer(block, name))
        self.added[block] = self.added.get(block, 0) + versions.keep_values(ops, self.forward_of)
        # blocks inside may know an old version by the name that the newest has here
        for name in versions.newer():
            self.grad_of.pop(name, None)
        self.write(ops, target)

    def write(self, ops: Sequence[Operator], target: Block) -> None:
        """Append finished ops to `target`, calling the callbacks after each."""
        for op in ops:
            op.attrs["op_role"] = int(OpRole.Backward)
            target.adopt(len(target.ops), op)
            self.made.setdefault(target, set()).update(op.output_arg_names)
            if self.callbacks:
                # fluid's callbacks find the op there
                self.grad_of["__current_op_desc__"] = op.desc
                for callback in self.callbacks:
                    callback(block=target, context=self.grad_of)

    def _gradient_ops(
        self, versions: Versions, path: Sequence[Operator], renamed: dict[str, str]
    ) -> list[Operator]:
        arriving = set(versions.started())
        contexts = [self._context(versions, op, arriving) for op in reversed(path)]
        joined = versions.join([op for context in contexts for op in context.ops], self.forward_of)
        ops: list[Operator] = []
        if self.given is not None:
            self.given.update(map(self._again, versions.started()))
        for context in contexts:
            context.grad_of = {joined.get(name, name): of for name, of in context.grad_of.items()}
            if self.program._appending_grad_times > 1:
                incoming = {versions.gradient(*made) for made in versions.writes(context.forward)}
                self._rename_again(context, versions.block, renamed, incoming)
            ops += self._connected(context)
        return ops

    def _context(self, versions: Versions, op: Operator, arriving: set[str]) -> GradientContext:
        """The gradient ops of one forward op, whose results are added to the gradients `arriving`."""
        no_grad = self.no_grad[versions.block.idx]
        older = versions.older(op, no_grad)
        context = GradientContext(
            versions.view(op),
            versions.no_grad_of(op, no_grad),
            self._sub_block_gradients(op, older),
            older,
            op,
        )
        add_left_outputs(context, versions.arriving(op, arriving))
        add_saved_outputs(context)
        versions.name_gradients(op, context.ops, context.grad_of)
        for gradient_op in context.ops:
            read = reads_of(gradient_op)
            if self.given is None or not read or not arriving.isdisjoint(read):
                arriving.update(gradient_op.output_arg_names)
        self.forward_of.update(dict.fromkeys(context.ops, op))
        return context

    def _sub_block_gradients(self, op: Operator, older: Collection[str]) -> Block | None:
        """A new block with the gradient ops of `op`'s sub-block."""
        if not op.has_attr("sub_block"):
            return None
        forward = op._block_attr("sub_block")
        target = self.program._create_block()
        target._set_forward_block_idx(forward.idx)
        # inside a loop a gradient may come from the next round
        given = self.given
        self.given = None
        written = [name for name in op.output_arg_names if self._has_gradient(op.block, name)]
        Versions(forward, written, op).stop(self.no_grad[forward.idx])
        path = sub_block_path(forward, op, self.no_grad[forward.idx])
        self.append(forward, path, target, written, SubBlockRun(op, older))
        self.given = given
        self.program._rollback()
        return target

    def _has_gradient(self, block: Block, name: str) -> bool:
        """True if a variable that ops of `block` write may have a gradient."""
        var = block._find_var_recursive(name)
        if var is None or var._dtype is None or not is_float(var._dtype):
            return False
        return grad_name(name) not in self._stopped[var.block.idx]

    def _is_outer(self, block: Block, name: str) -> bool:
        """True for a variable of the blocks around `block` that may have a gradient."""
        return name not in block.vars and self._has_gradient(block, name)

    def _values(self, block: Block, no_grad: set[str]) -> set[str]:
        """Of `no_grad`, names under which an earlier pass has made a gradient: an op that reads one reads a
        value, for those of this pass have other names.
        """
        return no_grad.intersection(block.vars) if self.program._appending_grad_times > 1 else set()

    def _again(self, name: str) -> str:
        """The name of a gradient that an earlier pass has made, too."""
        return "grad/" * self.program._appending_grad_times + name

    def _rename_again(
        self, context: GradientContext, block: Block, renamed: dict[str, str], incoming: set[str]
    ) -> None:
        """Gradients of an earlier pass keep their names: the new ones are called `grad/grad/x@GRAD`.

        `incoming` come into the op; gradients that it reads as values, those of an earlier pass, keep their
        names.
        """

        def again(name: str) -> str:
            if is_gradient(name) and name in block.vars:
                renamed[name] = self._again(name)
            return renamed.get(name, name)

        for op in context.ops:
            for name in incoming.intersection(op.input_arg_names):
                op._rename_input(name, again(name))
            incoming.update(op.output_arg_names)
            for name in op.output_arg_names:
                op._rename_output(name, again(name))
                if name in renamed and name in context.grad_of:
                    context.grad_of[renamed[name]] = context.grad_of.pop(name)

    def _connected(self, context: GradientContext) -> list[Operator]:
        """The ops of `context` that read a gradient which exists; all of them in a first pass."""
        ops = context.ops
        if self.given is not None:
            ops = []
            for op in context.ops:
                read = reads_of(op)
                # made from nothing, as the gradient of increment is
                if not read:
                    break
                if not self.given.isdisjoint(read):
                    ops.append(op)
                    self.given.update(op.output_arg_names)
            else:
                if not ops:
                    return []
        self.grad_of.update(context.grad_of)
        return ops


def rename_known_gradients(
    block: Block, start: int, grad_of: dict[str, Any], renamed: Mapping[str, str]
) -> None:
    """From op `start` on, give new names to gradients that `block` has already, and apply `renamed` to
    what is read.
    """
    names = dict(renamed)
    for op in block.ops[start:]:
        for name in op.input_arg_names:
            if name in names:
                op._rename_input(name, names[name])
        for name in op.output_arg_names:
            if is_gradient(name) and name in block.vars:
                names[name] = unique_name.generate(name)
                op._rename_output(name, names[name])
            else:
                # from here on it is what the op makes of the gradient that was given
                names.pop(name, None)
    for name, new in names.items():
        if name in grad_of:
            grad_of[new] = grad_of.pop(name)


# ---------------------------------------------------------------------- declarations
def declare_gradients(
    block: Block,
    start: int,
    grad_of: Mapping[str, Any],
    found: dict[str, tuple[str, Block]],
    incoming: Collection[str] = (),
) -> None:
    """Declare what the ops from `start` on write, and drop ops that compute from gradients that do not exist.

    `found` receives for each variable the name of its gradient and the block that has it; `incoming` are
    variables, of any name, that were given as gradients.
    """
    given = _given_by_runner(block)
    lost = set[str]()
    for op in block.ops[start:]:
        for sub_block in op.sub_blocks():
            declare_gradients(sub_block, 0, grad_of, found)
        if _computes_nothing(op, block, given, incoming):
            # past the guard of `remove_op`: the ops that read what is lost come later in this loop
            block._remove_op(op.idx)
            lost.update(op.output_arg_names)
            continue
        lost.difference_update(op.output_arg_names)
        drop_beyond(op, lambda name: block._find_var_recursive(name) is None)
        _fill_missing(op, block, given)
        # of partial gradients, some of which turned out to be none
        for slot in _added_slots(op):
            op.inputs[slot] = [name for name in op.inputs[slot] if name not in lost] or op.inputs[slot]
        new = [
            name
            for name in dict.fromkeys(op.output_arg_names)
            if name != EMPTY_VAR and block._find_var_recursive(name) is None
        ]
        for name in new:
            block.create_var(name=name)
            if name in grad_of:
                found[grad_of[name]] = (name, block)
        _infer(op, new)


def _added_slots(op: Operator) -> tuple[str, ...]:
    """The slot whose values the op adds up, if it does."""
    if op.definition is None or not op.definition.adds:
        return ()
    return (op.definition.adds,)


def _fill_missing(op: Operator, block: Block, given: Collection[str]) -> None:
    """Zeros for each gradient that an op has to be given, and that nobody made: of several targets, or parts
    of one tensor, a gradient may have come to one alone.
    """
    slots = op.definition.inputs if op.definition is not None else {}
    for slot, names in op.inputs.items():
        if slot not in slots:
            continue
        unknown = [name for name in names if is_gradient(name) and name not in given]
        missing = [name for name in unknown if block._find_var_recursive(name) is None]
        # a sum adds those that there are, and an op with a block starts it with them
        takes_few = slot in _added_slots(op) or bool(op.sub_blocks())
        is_partial = slots[slot].many and len(missing) < len(names) and not takes_few
        if slots[slot].optional and not is_partial:
            continue
        for name in missing:
            # under another name: the caller may declare one of this gradient's
            like, zeros = like_of(name, block), unique_name.generate(f"{name}@ZERO")
            block.create_var(name=zeros)
            filler = helper_op(block, op, "fill_zeros_like", {"X": [like]}, {"Out": [zeros]}, {})
            block.adopt(op.idx, filler)
            filler.infer()
            op._rename_input(name, zeros)


def _given_by_runner(block: Block) -> set[str]:
    """Gradients that the op running `block` starts it with: they exist although nothing declares them."""
    for other in block.program.blocks:
        for op in other.ops:
            if any(sub_block is block for sub_block in op.sub_blocks()):
                return (set(op.input_arg_names) & set(op.output_arg_names)) | own_gradients(op)
    return set()


def _computes_nothing(op: Operator, block: Block, given: set[str], incoming: Collection[str]) -> bool:
    if all(name == EMPTY_VAR for name in op.output_arg_names):
        return not taken_in_blocks(op)
    # a gradient that was given has any name: its slot tells what it is, or another gradient in it
    slots = [slot for slot in op.inputs if is_gradient(slot) or slot in _added_slots(op)]
    by_slot = [name for slot in slots for name in op.inputs[slot]]
    for names in op.inputs.values():
        by_slot += [name for name in names if name in incoming and any(map(is_gradient, names))]
    read = [*reads_of(op), *by_slot]
    exists = any(name in given or block._find_var_recursive(name) is not None for name in read)
    return bool(read) and not exists and op.type != _WRITES_FROM_NOTHING


def _infer(op: Operator, new: Sequence[str]) -> None:
    """Shapes and kinds from the op's rule; a gradient looks like its variable, whatever the rule says."""
    block = op.block
    # a rule that met an undeclared input would fail; gradients of what nobody reads are not declared
    if all(name == EMPTY_VAR or block._find_var_recursive(name) is not None for name in op.input_arg_names):
        op.infer()
    for name in new:
        block.vars[name].op = op
        like_forward(name, block)


def like_forward(gradient: str, block: Block) -> None:
    """Declare `gradient`, a variable of `block`, with shape and dtype of the variable that it belongs to,
    float32 without one.
    """
    var = block.vars[gradient]
    # "grad/" stands in front of a name that was given once more, in a second derivative
    forward = block._find_var_recursive(forward_name(gradient).rpartition("grad/")[2])
    if forward is None:
        var.dtype = VarType.FP32  # as in Paddle
    elif forward is not var:
        var.shape = forward.shape
        if forward._dtype is not None:
            var.dtype = forward.dtype
