"""Ways to break a correct set of roles, each with the rule that must catch it.

A mutation looks at a set of roles and gives the edits that it could make there, one a place; the caller makes
one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.ir.program import copy_operator
from fluidlite.transpiler.parts.roles import JobRole, Programs

Roles = dict[JobRole, Programs]
Edit = Callable[[], Any]
Mutation = Callable[[Roles], Iterator[Edit]]

SERVERS: dict[
    str, tuple[str, Mutation]
] = {}  # name -> (rule, mutation); of synchronous parameter-server jobs
ASYNC: dict[str, tuple[str, Mutation]] = {}  # those that break asynchronous jobs too
TABLES: dict[str, tuple[str, Mutation]] = {}  # of jobs with sparse tables on the servers
PAIRS: dict[str, tuple[str, Mutation]] = {}  # of synchronous jobs with parameters of one shape
GEO: dict[str, tuple[str, Mutation]] = {}  # of geo-SGD jobs
NCCL2: dict[str, tuple[str, Mutation]] = {}
RANKS: dict[str, tuple[str, Mutation]] = {}  # of all-reduced jobs
SNAPSHOTS: dict[str, tuple[str, Mutation]] = {}  # of local SGD
MADE: dict[str, tuple[str, Mutation]] = {}  # of servers whose original programs are known


def breaks(rule: str, *families: dict[str, tuple[str, Mutation]]) -> Callable[[Mutation], Mutation]:
    def register(function: Mutation) -> Mutation:
        for family in families:
            family[function.__name__] = rule, function
        return function

    return register


def clone(roles: Roles) -> Roles:
    return {
        role: Programs(programs.main.clone(), programs.startup.clone()) for role, programs in roles.items()
    }


def ops(roles: Roles, program: str, *types: str, kind: str = "") -> Iterator[tuple[Any, int, Any]]:
    """(block, position, op) of every op of these types."""
    for role, programs in roles.items():
        if kind in ("", role.kind):
            for block in getattr(programs, program).blocks:
                for number, op in enumerate(block.ops):
                    if not types or op.type in types:
                        yield block, number, op


def remover(block: Any, number: int) -> Edit:
    return lambda: block._remove_op(number)


def doubler(block: Any, number: int) -> Edit:
    return lambda: block.ops.insert(number + 1, copy_operator(block.ops[number], block))


def mover(block: Any, number: int, to: int) -> Edit:
    """Moves an op so that it stands at `to` when it is gone from `number`."""
    return lambda: block.ops.insert(to, block.ops.pop(number))


def setter(op: Any, name: str, value: Any) -> Edit:
    return lambda: op.attrs.__setitem__(name, value)


def swapper(one: Any, other: Any, name: str) -> Edit:
    def swap() -> None:
        one.attrs[name], other.attrs[name] = other.attrs[name], one.attrs[name]

    return swap


def renamer(names: list[str], index: int, name: str) -> Edit:
    return lambda: names.__setitem__(index, name)


def listens(roles: Roles) -> list[Any]:
    return [op for _, _, op in ops(roles, "main", "listen_and_serv")]


def gradients(op: Any) -> list[str]:
    """Gradients that a send sends and servers average (step counters of asynchronous schedules are none)."""
    return [name for name in op.input("X") if "@GRAD" in name]


def trainer_vars(roles: Roles) -> Iterator[Any]:
    for block, _, op in ops(roles, "main", "send"):
        yield from (block.var(name) for name in gradients(op))


def reshaper(var: Any) -> Edit:
    return lambda: setattr(var, "_shape", (var.shape[0] + 1, *var.shape[1:]))


def retyper(var: Any) -> Edit:
    return lambda: setattr(var, "_dtype", VarType.FP64 if var._dtype == VarType.FP32 else VarType.FP32)
