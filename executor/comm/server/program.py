"""The program of a parameter server, read from its `listen_and_serv`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fluidlite.base.records import dataclass
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.prune import writes

__all__ = ["ServerProgram", "listening_op"]

_IN_STEP = 0  # the `distributed_mode` of servers whose trainers end their steps together
_GEO = 3  # that of geo-SGD's servers


@dataclass(frozen=True)
class ServerProgram:
    """The blocks and tables that `listen_and_serv` names.

    updates: blocks that update parameters.
    of_gradient: gradient -> the block that applies it, in the order in which a step runs them.
    schedule: the block of the learning rate's schedule.
    prefetches: name of ids -> the block that looks them up.
    saving: the block whose ops name the tables that are written to files.
    table_of_rows: in geo-SGD, name of what trainers send -> the sparse table that it is added to.
    copies: where the update corrects delays, parameter -> its copies by trainer, as each fetched it last.
    trainer_id: the variable that tells the block of such an update whose gradient it applies.
    """

    op: Operator
    endpoint: str
    trainers: int
    updates: tuple[Block, ...]
    of_gradient: dict[str, Block]
    schedule: Block | None
    prefetches: dict[str, Block]
    saving: Block | None
    table_of_rows: dict[str, str]
    copies: dict[str, list[str]]
    trainer_id: str | None

    @classmethod
    def read(cls, op: Operator) -> ServerProgram:
        """From the op's attributes."""
        attrs = op.attrs
        blocks = op.block.program.blocks
        updates = tuple(attrs["optimize_blocks"])
        of_gradient = _blocks_by_name(attrs["grad_to_block_id"], blocks)
        is_geo = attrs["distributed_mode"] == _GEO
        # `dc_asgd` may be set where the update does not correct delays: a synchronous server has none
        references = [
            inner
            for block in (of_gradient.values() if attrs["dc_asgd"] else ())
            for inner in block.ops
            if inner.type == "ref_by_trainer_id"
        ]
        saving = attrs["checkpint_block_id"]
        return cls(
            op=op,
            endpoint=attrs["endpoint"],
            trainers=int(attrs["Fanin"]),
            updates=updates,
            of_gradient=of_gradient,
            schedule=next((block for block in updates if block.idx == attrs["lr_decay_block_id"]), None),
            prefetches=_blocks_by_name(attrs["prefetch_var_name_to_block_id"], blocks),
            saving=blocks[saving] if saving >= 0 else None,
            table_of_rows=dict(_pairs(attrs["sparse_grad_to_param"])) if is_geo else {},
            copies={_corrected_param(inner): list(inner.input("X")) for inner in references},
            trainer_id=references[0].input("TrainerId")[0] if references else None,
        )

    @property
    def block(self) -> Block:
        """The outer block, which declares what the server holds."""
        return self.op.block

    @property
    def merged(self) -> list[str]:
        """Names that a synchronous server merges: of each gradient one for each trainer."""
        return list(self.op.input("X"))

    @property
    def arriving(self) -> list[str]:
        """Names of the gradients that trainers send."""
        return [*self.merged, *self.of_gradient]

    @property
    def is_by_hand(self) -> bool:
        """True if a person has written the blocks (`ListenAndServ`): no gradient belongs to one of them, all
        run in each step, and trainers may ask for whatever the outer block declares.
        """
        return not self.of_gradient

    @property
    def step_blocks(self) -> tuple[Block, ...]:
        """The blocks of a synchronous step besides the schedule, in their order."""
        if self.is_by_hand:
            return tuple(block for block in self.updates if block is not self.schedule)
        return tuple(self.of_gradient.values())

    @property
    def is_synchronous(self) -> bool:
        """True if the blocks merge what arrives: then a step is done when every trainer has ended it. The
        gradients of a single trainer may be applied as they come, whatever `distributed_mode` says: fluid's
        transpiler sets it by a configuration that its other arguments overrule.
        """
        if self.is_by_hand:
            return self.op.attrs["distributed_mode"] == _IN_STEP
        merged = set(self.merged)
        firsts = [block.ops[0] for block in self.of_gradient.values() if block.ops]
        return any(first.type == "sum" and set(first.input("X")) <= merged for first in firsts)

    def terms_of(self, gradient: str) -> list[str]:
        """The names that arrive for a gradient of a synchronous step: one from each trainer, which the block
        adds up first, or the gradient itself; none where nobody sends it.
        """
        block = self.of_gradient[gradient]
        first = block.ops[0].inputs.get("X", []) if block.ops and block.ops[0].type == "sum" else []
        merged = set(self.merged)
        if first and merged.issuperset(first):
            return first
        return [gradient] if gradient in merged else []

    def last_writers(self) -> dict[str, int]:
        """Variable -> the number of the last block of a step that writes it."""
        return {
            name: number
            for number, block in enumerate(self.step_blocks)
            for op in block.ops
            for name in writes(op)
        }

    def schedule_inputs(self) -> list[str]:
        """Variables that the schedule goes on from, which trainers' counts of their steps are added to."""
        written: set[str] = set()
        found: set[str] = set()
        for op in self.schedule.ops if self.schedule is not None else ():
            found.update(name for name in op.input_arg_names if name not in written)
            written.update(writes(op))
        declared = {name: self.block._find_var_recursive(name) for name in found}
        return sorted(name for name, var in declared.items() if var is not None and var.persistable)


def listening_op(block: Block) -> Operator:
    """The `listen_and_serv` of a server's outer block."""
    return next(op for op in block.ops if op.type == "listen_and_serv")


def _pairs(texts: Iterable[str]) -> list[tuple[str, str]]:
    """The pairs of a list of "name:value": fluid's op has no other form for a mapping, and this is the one
    place where a server takes it apart.
    """
    found = []
    for text in filter(None, texts):  # a server that was written by hand has one empty text for no pairs
        name, _, value = text.rpartition(":")
        found.append((name, value))
    return found


def _blocks_by_name(texts: Iterable[str], blocks: Any) -> dict[str, Block]:
    return {name: blocks[int(number)] for name, number in _pairs(texts)}


def _corrected_param(reference: Operator) -> str:
    """The parameter whose copies a `ref_by_trainer_id` chooses from: the correction, the first op that reads
    the chosen copy, subtracts it from the parameter.
    """
    copy = reference.output("Out")[0]
    correction = next(op for op in reference.block.ops if copy in op.input_arg_names)
    return str(correction.input("Table" if correction.type == "correct_delayed_rows" else "X")[0])
