"""Startup programs that fetch the ids of communicators, over which a runtime reduces gradients."""

from __future__ import annotations

from collections.abc import Iterator

from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import TranspilerError
from fluidlite.base.records import dataclass
from fluidlite.ir.operator import OpRole
from fluidlite.ir.program import Program
from fluidlite.transpiler.parts.endpoints import RingMember
from fluidlite.transpiler.parts.insertions import Insertions

__all__ = ["Communicators", "flat_id", "inner_id", "outer_id", "startup_with_ids"]


def flat_id(number: int) -> str:
    """The variable with the id of communicator `number` of all trainers, as the runtime looks for it."""
    # fluid's names, inter and exter included
    return "NCCLID" if number == 0 else f"NCCLID_{number}"


def inner_id(number: int) -> str:
    """The variable with the id of communicator `number` within a group."""
    return f"Hierarchical_inter_NCCLID_{number}"


def outer_id(number: int) -> str:
    """The variable with the id of communicator `number` among the first trainers of all groups."""
    return f"Hierarchical_exter_NCCLID_{number}"


@dataclass(frozen=True)
class Communicators:
    """Communicators of all trainers: `count` of them, and, if `hierarchical`, as many within and between
    groups of `group` trainers.
    """

    count: int = 1
    hierarchical: bool = False
    group: int = 0

    def check(self, trainers: int) -> None:
        """TranspilerError unless they fit so many trainers."""
        if self.count < 1:
            raise TranspilerError(f"nccl_comm_num is {self.count}, but must be 1 or more")
        if not self.hierarchical:
            return
        if self.group <= 1:
            raise TranspilerError(
                f"hierarchical_allreduce_inter_nranks is {self.group}: set it to the number of "
                "trainers in a group (those of one machine), at least 2"
            )
        if trainers <= self.group or trainers % self.group:
            raise TranspilerError(
                f"hierarchical_allreduce_inter_nranks is {self.group}, which cannot divide the "
                f"{trainers} trainers into several groups"
            )

    def ids(self) -> Iterator[str]:
        """The variables that hold the ids."""
        for number in range(self.count):
            yield flat_id(number)
        for number in range(self.count if self.hierarchical else 0):
            yield inner_id(number)
            yield outer_id(number)


def startup_with_ids(startup: Program, rank: RingMember, communicators: Communicators) -> Program:
    """The startup program of `rank`, with one `gen_nccl_id` that fetches the ids of all communicators."""
    communicators.check(rank.count)
    new = startup.clone()
    block = new.global_block()
    for name in communicators.ids():
        block.create_var(name=name, persistable=True, type=VarType.RAW)
    edits = Insertions(block)
    edits.last(
        "gen_nccl_id",
        {},
        {"NCCLID": flat_id(0)},
        OpRole.Forward,
        trainers=list(rank.endpoints),
        trainer_id=rank.index,
        nccl_comm_num=communicators.count,
        use_hierarchical_allreduce=communicators.hierarchical,
        hierarchical_allreduce_inter_nranks=communicators.group,
    )
    edits.apply()
    return new
