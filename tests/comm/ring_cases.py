"""One table for the rings of all transports: what an op on a ring of `size` makes of each rank's value, as
NumPy tells it.

A case runs as a program of one op on every rank, twice, to catch what only goes wrong the first or the second
time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fluidlite as fluid
from fluidlite.executor.comm import current
from fluidlite.executor.comm.transports import process_session
from fluidlite.values.tensor import SelectedRows


@dataclass(frozen=True)
class RingCase:
    """An op, each rank's input by `give(rank, size)`, and each rank's output by `want(values, rank)`."""

    op: str
    give: Callable[[int, int], Any]
    want: Callable[[list[Any], int], Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    in_place: bool = False
    name: str = ""

    @property
    def id(self) -> str:
        return f"{self.op}{'_in_place' * self.in_place}{'_' + self.name if self.name else ''}"


def numbers(dtype: Any, *shape: int) -> Callable[[int, int], Any]:
    """Small whole numbers, so that every order of adding them gives the same."""

    def give(rank: int, size: int) -> Any:
        random = np.random.RandomState(7 * rank + size)
        return random.randint(0 if np.dtype(dtype).kind in "bu" else -3, 4, shape or (4 * size, 3)).astype(
            dtype
        )

    return give


def total(how: str) -> Callable[[list[Any], int], Any]:
    function = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}[how]

    def want(values: list[Any], rank: int) -> Any:
        found = values[0]
        for value in values[1:]:
            found = function(found, value)
        return found.astype(values[0].dtype)

    return want


def share(value: Any, rank: int, size: int) -> Any:
    return value[rank * len(value) // size : (rank + 1) * len(value) // size]


def exchanged(values: list[Any], rank: int) -> Any:
    return np.concatenate([share(value, rank, len(values)) for value in values])


def rows(rank: int, size: int) -> Any:
    return SelectedRows(np.arange(rank + 1, dtype="int64"), 10, np.full((rank + 1, 2), rank + 1.0, "float32"))


CASES = [
    *(
        RingCase(f"c_allreduce_{how}", numbers("float32"), total(how), in_place=place)
        for how in ("sum", "max", "min", "prod")
        for place in (False, True)
    ),
    *(
        RingCase("c_allreduce_sum", numbers(dtype), total("sum"), name=dtype)
        for dtype in ("float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
    ),
    *(
        RingCase(f"c_allreduce_{how}", numbers("bool"), total(how), name="bool")
        for how in ("max", "min", "prod")
    ),
    RingCase("c_allreduce_max", numbers("float16"), total("max"), in_place=True, name="float16"),
    RingCase("c_allreduce_sum", numbers("float32", 0, 3), total("sum"), name="empty"),
    RingCase("c_allreduce_sum", numbers("float32", 70001), total("sum"), in_place=True, name="large"),
    RingCase(
        "c_allreduce_sum",
        lambda rank, size: numbers("float32", 6, 5)(rank, size).T,
        total("sum"),
        in_place=True,
        name="transposed",
    ),
    RingCase("allreduce", numbers("float32"), total("sum")),
    *(
        RingCase("allreduce", numbers("float32"), total(how), {"reduce_type": number}, name=how)
        for number, how in ((1, "prod"), (2, "max"), (3, "min"))
    ),
    *(
        RingCase(
            f"c_reduce_{how}",
            numbers("float32"),
            lambda values, rank, how=how: total(how)(values, rank) if rank == 1 else values[rank],
            {"root_id": 1},
        )
        for how in ("sum", "max", "min", "prod")
    ),
    RingCase(
        "c_reduce_sum",
        numbers("float16"),
        lambda values, rank: total("sum")(values, 0) if rank == 0 else values[rank],
        name="float16",
    ),
    RingCase(
        "c_reduce_sum",
        numbers("float32"),
        lambda values, rank: total("sum")(values, 0) if rank == 0 else values[rank],
        in_place=True,
    ),
    RingCase("c_broadcast", numbers("float32"), lambda values, rank: values[1], {"root": 1}),
    RingCase("c_broadcast", numbers("int64"), lambda values, rank: values[0], in_place=True),
    RingCase("c_broadcast", numbers("float32", 0), lambda values, rank: values[0], name="empty"),
    RingCase("c_broadcast", numbers("float16"), lambda values, rank: values[0], name="float16"),
    RingCase("broadcast", numbers("float32"), lambda values, rank: values[1], {"root": 1}),
    RingCase("c_allgather", numbers("float32"), lambda values, rank: np.concatenate(values), {"nranks": 0}),
    RingCase(
        "c_allgather",
        numbers("bool"),
        lambda values, rank: np.concatenate(values),
        {"nranks": 0},
        name="bool",
    ),
    RingCase(
        "c_allgather",
        numbers("float16", 0, 4),
        lambda values, rank: np.concatenate(values),
        {"nranks": 0},
        name="empty",
    ),
    RingCase(
        "c_reducescatter",
        numbers("float32"),
        lambda values, rank: share(total("sum")(values, 0), rank, len(values)),
        {"nranks": 0},
    ),
    RingCase(
        "c_reducescatter",
        numbers("float16"),
        lambda values, rank: share(total("sum")(values, 0), rank, len(values)),
        {"nranks": 0},
        name="float16",
    ),
    RingCase(
        "c_scatter",
        numbers("float32"),
        lambda values, rank: share(values[1], rank, len(values)),
        {"nranks": 0, "root": 1},
    ),
    RingCase(
        "c_reducescatter",
        numbers("bool"),
        lambda values, rank: share(total("sum")(values, 0), rank, len(values)),
        {"nranks": 0},
        name="bool",
    ),
    RingCase("mp_allreduce_sum", numbers("float32"), total("sum")),
    RingCase("c_identity", numbers("float32"), lambda values, rank: values[rank]),
    RingCase(
        "c_concat",
        numbers("float32"),
        lambda values, rank: np.concatenate(values, axis=1),
        {"nranks": 0, "rank": "rank"},
    ),
    *(
        RingCase("alltoall", numbers(dtype), exchanged, name=dtype)
        for dtype in ("float32", "float16", "int64", "bool")
    ),
    RingCase("alltoall", numbers("float32", 0, 3), exchanged, name="empty"),
    RingCase(
        "partial_allgather",
        numbers("float32", 12, 2),
        lambda values, rank: np.concatenate(
            [share(value.reshape(-1), number, len(values)) for number, value in enumerate(values)]
        ).reshape(values[0].shape),
        {"nranks": 0, "rank": "rank"},
    ),
    RingCase(
        "reduce_scatter",
        numbers("float32"),
        lambda values, rank: share(total("sum")(values, 0), rank, len(values)),
        {"nranks": 0},
    ),
    RingCase("all_gather", numbers("float32"), lambda values, rank: np.concatenate(values), {"nranks": 0}),
    RingCase("all_to_all", numbers("float32"), exchanged),
    *(
        RingCase("all_reduce", numbers("float32"), total(how), {"reduce_type": number}, name=how)
        for number, how in enumerate(("sum", "max", "min", "prod"))
    ),
    RingCase("barrier", numbers("int32", 1), lambda values, rank: values[rank]),
    RingCase("c_sync_calc_stream", numbers("float32"), lambda values, rank: values[rank]),
    RingCase("c_sync_comm_stream", numbers("float32"), lambda values, rank: values[rank]),
    RingCase(
        "c_allreduce_sum",
        rows,
        lambda values, rank: SelectedRows(
            np.concatenate([value.ids for value in values]),
            10,
            np.concatenate([value.array for value in values]),
        ),
        name="rows",
    ),
    RingCase(
        "c_reduce_sum",
        rows,
        lambda values, rank: (
            values[rank]
            if rank
            else SelectedRows(
                np.concatenate([value.ids for value in values]),
                10,
                np.concatenate([value.array for value in values]),
            )
        ),
        name="rows",
    ),
    RingCase("c_broadcast", rows, lambda values, rank: values[1], {"root": 1}, name="rows"),
]


# ops of 2.x's newer programs have slots in small letters
SMALL = frozenset({"all_gather", "all_reduce", "all_to_all", "reduce_scatter"})


def program_of(case: RingCase, size: int, ring_id: int, rank: int = 0) -> fluid.Program:
    """A program of one op, from `x` to `out` (or to `x`); its `nranks` and `rank` are the ring's."""
    main = fluid.Program()
    block = main.global_block()
    example = case.give(0, size)
    form: dict[str, Any] = (
        {"type": fluid.core.VarDesc.VarType.SELECTED_ROWS}
        if isinstance(example, SelectedRows)
        else {"dtype": str(example.dtype), "shape": list(example.shape)}
    )
    x = block.create_var(name="x", **form)
    out = x if case.in_place else block.create_var(name="out", **form)
    ours = {"nranks": size, "rank": rank}
    attrs = {**case.attrs, **{name: value for name, value in ours.items() if name in case.attrs}}
    if case.op not in ("allreduce", "broadcast"):
        attrs["ring_id"] = ring_id
    block.append_op(
        type=case.op,
        inputs={"x" if case.op in SMALL else "X": [x]},
        outputs={"out" if case.op in SMALL else "Out": [out]},
        attrs=attrs if case.op != "c_sync_calc_stream" else {},
    )
    return main


def check(case: RingCase, rank: int, size: int, ring_id: int = 0) -> None:
    """Run a case as one of the ranks of a ring that was joined, in a plan and in the interpreter."""
    values = [case.give(number, size) for number in range(size)]
    want = case.want(values, rank)
    main = program_of(case, size, ring_id, rank)
    name = "x" if case.in_place else "out"
    for naive in (False, True):
        exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
        exe.naive = naive
        for _ in range(2):
            given = case.give(rank, size)
            kept = given.array.copy() if isinstance(given, SelectedRows) else given.copy()
            if isinstance(given, SelectedRows):
                main.global_block().vars["x"].persistable = True
                scope.var("x").set(given)
                (found,) = exe.run(main, fetch_list=[name], scope=scope, return_numpy=False)
                assert (
                    found.ids.tolist() == want.ids.tolist() and found.array.tolist() == want.array.tolist()
                ), (case.id, naive, rank)
                continue
            (found,) = exe.run(main, feed={"x": given}, fetch_list=[name], scope=scope)
            assert found.dtype == want.dtype and found.shape == want.shape, (
                case.id,
                naive,
                rank,
                found.dtype,
                found.shape,
            )
            assert (found == want).all(), (case.id, naive, rank, found, want)
            assert (given == kept).all(), (case.id, "what was fed has changed")


def joined(rank: int, size: int, rings: tuple[int, ...] = (0,)) -> None:
    """Join rings of all ranks, by the ops that startup programs hold."""
    startup = fluid.Program()
    block = startup.global_block()
    endpoints = [f"127.0.0.1:{7000 + number}" for number in range(size)]
    for ring in rings:
        block.create_var(name=f"id_{ring}", persistable=True, type=fluid.core.VarDesc.VarType.RAW)
        block.append_op(
            type="c_gen_nccl_id",
            outputs={"Out": [f"id_{ring}"]},
            attrs={
                "rank": rank,
                "endpoint": endpoints[rank],
                "other_endpoints": [one for one in endpoints if one != endpoints[rank]],
            },
        )
        block.append_op(
            type="c_comm_init",
            inputs={"X": [f"id_{ring}"]},
            attrs={"nranks": size, "rank": rank, "ring_id": ring},
        )
    fluid.Executor(fluid.CPUPlace()).run(startup, scope=fluid.Scope())


def ring(ring_id: int = 0) -> Any:
    """The ring object of this thread or process."""
    session = current() or process_session(False)
    assert session is not None
    return session.ring(ring_id)
