"""The values that ranks exchange: Variables of a program, for which ops are appended, or arrays at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from fluidlite.base.errors import ArgumentError
from fluidlite.base.place import is_array
from fluidlite.executor.comm.rings import Ring
from fluidlite.ir.attributes import RING_RANKS_ATTR
from fluidlite.ir.program import default_main_program
from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import append
from fluidlite.paddle.distributed.communication.group import GLOBAL, Group, global_group, known_group
from fluidlite.paddle.distributed.environment import ParallelEnv

__all__ = ["Members", "ReduceOp", "Task", "check_tensor", "fill", "op_of", "reduction", "write"]


class ReduceOp:
    """The ways to reduce the values of all ranks to one."""

    SUM = 0
    MAX = 1
    MIN = 2
    PROD = 3
    AVG = 4


_REDUCTIONS = {
    ReduceOp.SUM: "sum",
    ReduceOp.MAX: "max",
    ReduceOp.MIN: "min",
    ReduceOp.PROD: "prod",
    ReduceOp.AVG: "sum",  # and then divided
}


def reduction(op: Any) -> str:
    """The reduction of the rings that a ReduceOp begins with. ArgumentError where it is none."""
    if isinstance(op, bool) or op not in _REDUCTIONS:
        raise ArgumentError(f"op is {op!r}, but should be a ReduceOp: SUM, MAX, MIN, PROD or AVG")
    return _REDUCTIONS[op]


class Task:
    """A call that was started: `wait` returns when it is done."""

    def __init__(self, finish: Callable[[], None] | None = None) -> None:
        self._finish = finish

    def wait(self) -> bool:
        """Return once the result is there."""
        finish = self._finish
        self._finish = None
        if finish is not None:
            finish()
        return True

    def is_completed(self) -> bool:
        """True once the result is there."""
        return self._finish is None

    synchronize = wait


class Members:
    """The ranks that take part in a call: those of a group, or all."""

    def __init__(self, group: Group | None) -> None:
        self.group = group

    @property
    def ring_id(self) -> int:
        """The number of their ring."""
        return GLOBAL if self.group is None else self.group.id

    def ring_attrs(self) -> dict[str, Any]:
        """The ring's attribute for an op of the default program, which notes down who forms the ring: no op
        of its startup program makes it.
        """
        formed = global_group() if self.group is None else self.group
        if formed is not None:
            program = default_main_program()
            known = program.distribution
            fact = (formed.id, tuple(formed.ranks))
            if fact not in known.formed:
                program.distribution = replace(known, formed=(*known.formed, fact))
            return {"ring_id": self.ring_id, RING_RANKS_ATTR: list(formed.ranks)}
        return {"ring_id": self.ring_id}

    @property
    def size(self) -> int:
        """How many they are."""
        return ParallelEnv().world_size if self.group is None else self.group.nranks

    @property
    def rank(self) -> int:
        """The number of this process among them; -1 if it is not one of them."""
        return ParallelEnv().rank if self.group is None else self.group.rank

    @property
    def ring(self) -> Ring:
        """Their ring, for calls on arrays. ValueError before `init_parallel_env`."""
        group = known_group(GLOBAL) if self.group is None else self.group
        session = group.process_group
        if session is None:
            raise ArgumentError(f"group {group.id} was not made by new_group, and has no connection")
        return session.ring(group.id)

    def number(self, rank: int, what: str) -> int:
        """The number among them of a rank of the job. ValueError if it is not one of them."""
        if self.group is None:
            if not 0 <= rank < self.size:
                raise ValueError(f"{what} is {rank}, but the ranks are 0 to {self.size - 1}")
            return rank
        if rank not in self.group.ranks:
            raise ValueError(f"{what} is rank {rank}, which is not one of the group's: {self.group.ranks}")
        return self.group.ranks.index(rank)


def check_tensor(value: Any, what: str, function: str) -> bool:
    """True for a Variable of a program, False for an array. ArgumentError (a TypeError) for anything else."""
    if isinstance(value, Variable):
        return True
    if not is_array(value):
        raise ArgumentError(
            f"The type of '{what}' in {function} must be Variable or an array, but received {type(value)}"
        )
    return False


def op_of(
    members: Members,
    op_type: str,
    value: Variable,
    attrs: dict[str, Any],
    out: Variable | None = None,
    slots: tuple[str, str] = ("X", "Out"),
) -> Any:
    """The result of an op on the members' ring: `out`, or a temporary of the op's own."""
    first, last = slots
    attrs = {**members.ring_attrs(), **attrs}
    return append(op_type, {first: [value]}, attrs, dtype=value.dtype, slot=last, out=out)


def write(target: Any, value: Any) -> None:
    """Let an array have the values of another. ArgumentError where they differ in shape."""
    if target.shape != value.shape:
        raise ArgumentError(
            f"the result is {value.dtype}{list(value.shape)}, but the array for it has the shape "
            f"{list(target.shape)}"
        )
    if target is not value:
        target[...] = value


def fill(targets: list[Any], values: Sequence[Any]) -> None:
    """Give a list its values: an empty one gets arrays, one of arrays is written over."""
    if not targets:
        targets.extend(values)
        return
    if len(targets) != len(values):
        raise ArgumentError(f"there are {len(values)} results, but the list holds {len(targets)} arrays")
    for target, value in zip(targets, values, strict=True):
        write(target, value)
