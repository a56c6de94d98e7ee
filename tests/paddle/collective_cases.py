"""One table for the collective functions of 2.x on all transports: what a call makes of each member's values,
as NumPy tells it.

A case runs twice on arrays and twice as a program, on the group of all ranks and on groups of some.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fluidlite as fluid
from fluidlite import paddle
from fluidlite.executor.comm import current
from fluidlite.executor.comm.transports import process_session

dist = paddle.distributed
Op = dist.ReduceOp


@dataclass
class Call:
    """One member's call: its value `x`, room for results, the group, and its place there."""

    x: Any
    zeros: Callable[..., Any]
    group: Any
    ranks: list[int]
    index: int
    also: list[Any] = field(
        default_factory=list
    )  # further values: x + 100, x + 200, ... for the other members

    @property
    def size(self) -> int:
        return len(self.ranks)

    @property
    def parts(self) -> list[Any]:
        """A value for each member."""
        return [self.x, *self.also]


@dataclass(frozen=True)
class Case:
    """`run` makes a call and gives its results; `want` tells those of member `index` from the lists of values
    of all members.
    """

    name: str
    run: Callable[[Call], list[Any]]
    want: Callable[[list[list[Any]], int], list[Any]]
    dtype: str = "float32"


def reduced(op: int, values: list[list[Any]]) -> Any:
    first = [each[0] for each in values]
    how = {Op.SUM: np.add, Op.MAX: np.maximum, Op.MIN: np.minimum, Op.PROD: np.multiply, Op.AVG: np.add}[op]
    total = functools.reduce(how, first)
    return total / len(first) if op == Op.AVG else total


def rows(value: Any, index: int, size: int) -> Any:
    return np.split(value, size)[index]


def last(call: Call) -> int:
    """The rank of the job that is the group's last member."""
    return call.ranks[-1]


# ---------------------------------------------------------------------- the calls
def all_reduce(op: int, **options: Any) -> Callable[[Call], list[Any]]:
    def run(call: Call) -> list[Any]:
        task = dist.all_reduce(call.x, op, group=call.group, **options)
        if task is not None:
            task.wait()
        return [call.x]

    return run


def reduce(op: int) -> Callable[[Call], list[Any]]:
    def run(call: Call) -> list[Any]:
        dist.reduce(call.x, last(call), op, group=call.group)
        return [call.x]

    return run


def reduce_scatter(op: int) -> Callable[[Call], list[Any]]:
    def run(call: Call) -> list[Any]:
        out = call.zeros(call.x.shape)
        dist.reduce_scatter(out, call.parts, op, group=call.group)
        return [out]

    return run


def reduce_scatter_rows(call: Call) -> list[Any]:
    out = call.zeros([call.x.shape[0] // call.size, *call.x.shape[1:]])
    dist.stream.reduce_scatter(out, call.x, group=call.group)
    return [out]


def all_gather(call: Call) -> list[Any]:
    found: list[Any] = []
    dist.all_gather(found, call.x, group=call.group)
    return found


def gather(call: Call) -> list[Any]:
    is_last = call.index == call.size - 1
    found: list[Any] = []
    dist.gather(call.x, found if is_last else None, last(call), group=call.group)
    return found if is_last else [call.x]


def broadcast(call: Call) -> list[Any]:
    dist.broadcast(call.x, last(call), group=call.group)
    return [call.x]


def scatter(call: Call) -> list[Any]:
    is_last = call.index == call.size - 1
    out = call.zeros(call.x.shape)
    dist.scatter(out, call.parts if is_last else None, last(call), group=call.group)
    return [out]


def alltoall(call: Call) -> list[Any]:
    found: list[Any] = []
    dist.alltoall(call.parts, found, group=call.group)
    return found


def alltoall_whole(call: Call) -> list[Any]:
    out = call.zeros(call.x.shape)
    dist.stream.alltoall(out, call.x, group=call.group)
    return [out]


def alltoall_single(call: Call) -> list[Any]:
    out = call.zeros(call.x.shape)
    dist.alltoall_single(call.x, out, group=call.group)
    return [out]


def shares(index: int, size: int) -> list[int]:
    """Rows that a member has for each: what is left of 12 for the last."""
    return [*([1 + index % 2] * (size - 1)), 12 - (1 + index % 2) * (size - 1)]


def alltoall_ragged(call: Call) -> list[Any]:
    received = [shares(other, call.size)[call.index] for other in range(call.size)]
    out = call.zeros([sum(received), *call.x.shape[1:]])
    dist.alltoall_single(call.x, out, shares(call.index, call.size), received, group=call.group)
    return [out]


def ragged(values: list[list[Any]], index: int) -> list[Any]:
    size = len(values)
    parts = []
    for other, each in enumerate(values):
        ends = np.cumsum(shares(other, size))
        parts.append(each[0][ends[index] - shares(other, size)[index] : ends[index]])
    return [np.concatenate(parts)]


def around(call: Call) -> list[Any]:
    """To the next member, and from the one before."""
    out = call.zeros(call.x.shape)
    dist.send(call.x, call.ranks[(call.index + 1) % call.size], group=call.group)
    dist.recv(out, call.ranks[call.index - 1], group=call.group)
    return [out]


def around_later(call: Call) -> list[Any]:
    out = call.zeros(call.x.shape)
    tasks = [
        dist.isend(call.x, call.ranks[(call.index + 1) % call.size], group=call.group),
        dist.irecv(out, call.ranks[call.index - 1], group=call.group),
    ]
    for task in tasks:
        if task is not None:
            task.wait()
    return [out]


def around_together(call: Call) -> list[Any]:
    out = call.zeros(call.x.shape)
    before, after = call.ranks[call.index - 1], call.ranks[(call.index + 1) % call.size]
    for task in dist.batch_isend_irecv(
        [dist.P2POp(dist.irecv, out, before, call.group), dist.P2POp(dist.isend, call.x, after, call.group)]
    ):
        task.wait()
    return [out]


def waiting(call: Call) -> list[Any]:
    dist.wait(call.x, group=call.group)
    dist.wait(call.x, group=call.group, use_calc_stream=False)
    return [call.x]


CASES = [
    *(
        Case(f"all_reduce_{op}", all_reduce(op), lambda values, index, op=op: [reduced(op, values)])
        for op in range(5)
    ),
    Case("all_reduce_later", all_reduce(Op.SUM, sync_op=False), lambda values, _: [reduced(Op.SUM, values)]),
    *(
        Case(f"all_reduce_{dtype}", all_reduce(Op.MAX), lambda values, _: [reduced(Op.MAX, values)], dtype)
        for dtype in ("float64", "int64", "int32")
    ),
    *(
        Case(
            f"reduce_{op}",
            reduce(op),
            lambda values, index, op=op: [
                reduced(op, values) if index == len(values) - 1 else values[index][0]
            ],
        )
        for op in range(5)
    ),
    *(
        Case(
            f"reduce_scatter_{op}",
            reduce_scatter(op),
            lambda values, index, op=op: [reduced(op, [[each[index]] for each in values])],
        )
        for op in range(5)
    ),
    Case(
        "reduce_scatter_rows",
        reduce_scatter_rows,
        lambda values, index: [rows(reduced(Op.SUM, values), index, len(values))],
    ),
    Case("all_gather", all_gather, lambda values, _: [each[0] for each in values]),
    Case("all_gather_int", all_gather, lambda values, _: [each[0] for each in values], "int64"),
    Case(
        "gather",
        gather,
        lambda values, index: (
            [each[0] for each in values] if index == len(values) - 1 else [values[index][0]]
        ),
    ),
    Case("broadcast", broadcast, lambda values, _: [values[-1][0]]),
    Case("scatter", scatter, lambda values, index: [values[-1][index]]),
    Case("alltoall", alltoall, lambda values, index: [each[index] for each in values]),
    *(
        Case(
            run.__name__,
            run,
            lambda values, index: [np.concatenate([rows(each[0], index, len(values)) for each in values])],
        )
        for run in (alltoall_whole, alltoall_single)
    ),
    Case("alltoall_ragged", alltoall_ragged, ragged),
    *(
        Case(run.__name__, run, lambda values, index: [values[index - 1][0]])
        for run in (around, around_later, around_together)
    ),
    Case("wait", waiting, lambda values, index: [values[index][0]]),
]


# ---------------------------------------------------------------------- running them
def give(rank: int, size: int, dtype: str) -> list[Any]:
    """A rank's values, one for each member of a group of `size`: 12 rows of whole numbers."""
    value = np.random.RandomState(rank).randint(-2, 4, (12, 3)).astype(dtype)
    return [value + np.asarray(100 * number, dtype) for number in range(size)]


def ring_of(ring_id: int) -> Any:
    session = current() or process_session(False)
    assert session is not None
    return session.ring(ring_id)


def check_arrays(case: Case, group: Any, place: Callable[[Any], Any] = np.array) -> None:
    """Run a case twice on arrays, which `place` puts where they shall lie."""
    ranks = group.ranks
    values = [give(rank, len(ranks), case.dtype) for rank in ranks]
    for _ in range(2):
        mine = [place(value) for value in values[group.rank]]
        call = Call(
            mine[0], lambda shape: place(np.zeros(shape, case.dtype)), group, ranks, group.rank, mine[1:]
        )
        compare(case, case.run(call), case.want(values, group.rank))


_one_builds = threading.Lock()  # the default programs are those of the whole process


@contextlib.contextmanager
def building(main: Any, startup: Any) -> Iterator[None]:
    """Inside the `with`, this thread alone builds, and it builds these programs."""
    with _one_builds, paddle.static.program_guard(main, startup), fluid.unique_name.guard():
        yield


def check_program(case: Case, group: Any) -> None:
    """Run a case twice as a program."""
    ranks = group.ranks
    values = [give(rank, len(ranks), case.dtype) for rank in ranks]
    mine = values[group.rank]
    main = paddle.static.Program()
    with building(main, paddle.static.Program()):
        given = [paddle.static.data(f"x{number}", [12, 3], case.dtype) for number in range(len(mine))]
        call = Call(
            given[0], lambda shape: paddle.zeros(shape, case.dtype), group, ranks, group.rank, given[1:]
        )
        found = case.run(call)
    exe = paddle.static.Executor(paddle.CPUPlace())
    for _ in range(2):
        feed = {f"x{number}": value.copy() for number, value in enumerate(mine)}
        compare(
            case,
            exe.run(main, feed=feed, fetch_list=found, scope=fluid.Scope()),
            case.want(values, group.rank),
        )


def compare(case: Case, found: list[Any], wanted: list[Any]) -> None:
    assert len(found) == len(wanted), case.name
    for one, other in zip(found, wanted, strict=True):
        assert np.asarray(one).shape == other.shape, (case.name, np.asarray(one).shape, other.shape)
        assert np.allclose(np.asarray(one), other, rtol=1e-6), (case.name, one, other)


def groups(size: int) -> list[Any]:
    """All ranks, those with even numbers, and the last two, as groups in which this process may be."""
    everybody = dist.init_parallel_env()
    made = [everybody, dist.new_group(list(range(0, size, 2))), dist.new_group([size - 1, size - 2])]
    return [group for group in made if group.is_member()]
