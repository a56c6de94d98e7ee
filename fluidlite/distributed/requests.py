"""Rows of tables as a step asks for them: two lookups that ask one after the other may get different ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.distributed.shares import put
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.transpiler.parts.op_kinds import REMOTE_LOOKUP, is_lookup
from fluidlite.transpiler.parts.roles import Slice
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor

__all__ = ["TablesAsAsked", "requests_of"]


def requests_of(ops: Sequence[Operator]) -> dict[str, list[list[str]]]:
    """Table -> what the requests of a trainer's step for it give, in their order: names of a lookup's output,
    several for a request that serves several lookups.
    """
    found: dict[str, list[list[str]]] = defaultdict(list)
    for op in ops:
        if op.type == REMOTE_LOOKUP:
            found[op.input("W")[0]].append(op.output("Outputs"))
    return dict(found)


class TablesAsAsked:
    """The rows that a simulated trainer reads: of a table that its step asks for several times, a copy for
    each request.

    A request asks each server once, and waits for all of them; which server takes it first is chance. So a
    slice that was asked for before begins the next request. Rows count for the requests that may follow, too,
    which write over what they ask for. Messages do not name their request: of three in a step, the first of
    which asks for other slices than the two behind it, the second reads what the third is given.
    """

    def __init__(self, program: Program, scope: Scope, requests: Mapping[str, list[list[str]]]) -> None:
        self.scope = scope
        self.copies = {table: [table] for table in requests}
        for table, outputs in requests.items():
            for number in range(1, len(outputs)):
                self.copies[table].append(_copied(program, scope, table, number, outputs[number]))
        self.begin()

    def begin(self) -> None:
        """A step begins."""
        self.asked: dict[str, set[int]] = {table: set() for table in self.copies}
        self.request = dict.fromkeys(self.copies, 0)

    def write(self, piece: Slice, value: Array, whole: bool) -> None:
        """Rows of a slice as the server has them: of the parameter, or for the lookups of the step."""
        table = piece.param
        copies = self.copies.get(table, [table])
        if not whole and table in self.copies:
            asked = self.asked[table]
            if piece.first_row in asked:
                self.request[table] += 1
                asked.clear()
            asked.add(piece.first_row)
            copies = copies[self.request[table] :]
        for name in copies:
            held = self.scope.find_var(name)
            assert held is not None
            mine = np.array(held.value)
            mine[piece.first_row : piece.end_row] = value
            put(self.scope, {name: mine})


def _copied(program: Program, scope: Scope, table: str, number: int, outputs: Sequence[str]) -> str:
    """The name of another copy of a table, which the lookups with such outputs read."""
    block = program.global_block()
    name = f"{table}@request{number}"
    var = block.var(table)
    block.create_var(name=name, shape=var.shape, dtype=var.dtype, persistable=True)
    for op in block.ops:
        if is_lookup(op) and op.output("Out")[0] in outputs:
            op._rename_input(table, name)
    held = scope.find_var(table)
    assert held is not None
    scope.var(name).set(LoDTensor(np.array(held.value)))
    return name
