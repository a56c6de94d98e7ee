"""Ways to break servers and the order of a step; see `mutation_kit`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mutation_kit import (
    ASYNC,
    MADE,
    PAIRS,
    RANKS,
    SERVERS,
    SNAPSHOTS,
    Edit,
    Roles,
    breaks,
    doubler,
    gradients,
    listens,
    mover,
    ops,
    remover,
    renamer,
    setter,
)

from fluidlite.ir.program import copy_operator


# ---------------------------------------------------------------------- servers
@breaks("fanin", SERVERS, ASYNC)
def wrong_fanin(roles: Roles) -> Iterator[Edit]:
    return (setter(op, "Fanin", op.attrs["Fanin"] + change) for op in listens(roles) for change in (-1, 1))


@breaks("blocks", SERVERS, ASYNC)
def block_not_run(roles: Roles) -> Iterator[Edit]:
    for op in listens(roles):
        for index in range(len(op.attrs["optimize_blocks"])):
            yield setter(
                op,
                "optimize_blocks",
                [block for place, block in enumerate(op.attrs["optimize_blocks"]) if place != index],
            )


@breaks("blocks", SERVERS, ASYNC)
def block_run_twice(roles: Roles) -> Iterator[Edit]:
    return (
        setter(op, "optimize_blocks", [*op.attrs["optimize_blocks"], block])
        for op in listens(roles)
        for block in op.attrs["optimize_blocks"]
    )


@breaks("blocks", SERVERS, ASYNC)
def gradient_of_another_block(roles: Roles) -> Iterator[Edit]:
    for op in listens(roles):
        for index, entry in enumerate(op.attrs["grad_to_block_id"]):
            name = entry.rpartition(":")[0]
            for value in (f"{name}:99", f"{name}:x", f"{name}:{int(entry.rpartition(':')[2]) - 1}"):
                yield setter(
                    op,
                    "grad_to_block_id",
                    [
                        value if place == index else old
                        for place, old in enumerate(op.attrs["grad_to_block_id"])
                    ],
                )


@breaks("blocks", SERVERS, ASYNC)
def gradient_without_block(roles: Roles) -> Iterator[Edit]:
    for op in listens(roles):
        entries = op.attrs["grad_to_block_id"]
        yield from (
            setter(op, "grad_to_block_id", [old for old in entries if old != entry]) for entry in entries
        )


@breaks("uninitialised", SERVERS, ASYNC)
def initialiser_dropped(roles: Roles) -> Iterator[Edit]:
    for role, programs in roles.items():
        alone = {role: programs}
        read = {
            name
            for _, _, op in ops(alone, "main", kind="pserver")
            for name in op.input_arg_names
            if op.type not in ("sum", "listen_and_serv")
        }
        made = {name for _, _, op in ops(alone, "main", "sum") for name in op.output_arg_names}
        yield from (
            remover(block, number)
            for block, number, op in ops(alone, "startup")
            if (read - made) & set(op.output_arg_names)
        )


@breaks("average", SERVERS)
def average_behind_the_update(roles: Roles) -> Iterator[Edit]:
    for block, number, op in ops(roles, "main", "scale", kind="pserver"):
        if op.input("X") == op.output("Out") and "@GRAD" in op.input("X")[0]:
            yield mover(block, number, len(block.ops) - 1)


@breaks("average", SERVERS)
def average_twice(roles: Roles) -> Iterator[Edit]:
    for block, number, op in ops(roles, "main", "scale", kind="pserver"):
        if op.input("X") == op.output("Out") and "@GRAD" in op.input("X")[0]:
            yield doubler(block, number)


@breaks("as-written", MADE)
def penalty_of_another_size(roles: Roles) -> Iterator[Edit]:
    for _, _, op in ops(roles, "main", "scale", kind="pserver"):
        if "@GRAD" not in op.input("X")[0]:
            yield setter(op, "scale", 0.5)


@breaks("beginning", MADE)
def another_seed(roles: Roles) -> Iterator[Edit]:
    for _, _, op in ops(roles, "startup", "gaussian_random", kind="pserver"):
        yield setter(op, "seed", op.attrs["seed"] + 1)


@breaks("as-written", MADE)
def update_of_another_kind(roles: Roles) -> Iterator[Edit]:
    for _, _, op in ops(roles, "main", "momentum", kind="pserver"):
        yield setter(op, "use_nesterov", not op.attrs["use_nesterov"])
        yield setter(op, "mu", 0.5)


@breaks("beginning", MADE)
def another_beginning(roles: Roles) -> Iterator[Edit]:
    for _, _, op in ops(roles, "startup", "fill_constant", kind="pserver"):
        yield setter(op, "value", op.attrs["value"] + 1.0)
    for _, _, op in ops(roles, "startup", "uniform_random", kind="pserver"):
        yield setter(op, "max", op.attrs["max"] * 2)


@breaks("not-updated", SERVERS, ASYNC)
def update_dropped(roles: Roles) -> Iterator[Edit]:
    return (
        remover(block, number)
        for block, number, op in ops(roles, "main", kind="pserver")
        if op.inputs.get("Param", [])
    )


@breaks("updated-twice", SERVERS, ASYNC)
def update_doubled(roles: Roles) -> Iterator[Edit]:
    return (
        doubler(block, number)
        for block, number, op in ops(roles, "main", kind="pserver")
        if op.inputs.get("Param", [])
    )


@breaks("updated-twice", SERVERS, ASYNC)
def update_on_trainer_too(roles: Roles) -> Iterator[Edit]:
    update = next(op for _, _, op in ops(roles, "main", kind="pserver") if op.inputs.get("Param", []))
    for block, number, op in ops(roles, "main", "send"):
        if len(op.input("X")) == 1 and op.role_vars and gradients(op):

            def insert(block: Any = block, number: int = number, op: Any = op) -> None:
                new = copy_operator(update, block)
                new.inputs = {**new.inputs, "Param": [op.role_vars[0]], "Grad": op.input("X")}
                new.outputs = {"ParamOut": [op.role_vars[0]]}
                block.ops.insert(number, new)

            yield insert


def same_shaped(found: list[Any], slot: str) -> Iterator[tuple[Any, Any]]:
    """Neighbours in a list of ops whose variables in `slot` could be taken for each other."""
    for number, one in enumerate(found):
        for other in found[number + 1 :]:
            if one.block.program is other.block.program and (
                one.block._var_recursive(one.inputs[slot][0]).shape
                == other.block._var_recursive(other.inputs[slot][0]).shape
            ):
                yield one, other


def swap_slots(one: Any, other: Any, slot: str) -> Edit:
    def swap() -> None:
        one.inputs[slot], other.inputs[slot] = other.inputs[slot], one.inputs[slot]

    return swap


@breaks("pairing", PAIRS)
def parameters_swapped(roles: Roles) -> Iterator[Edit]:
    updates = [op for _, _, op in ops(roles, "main", kind="pserver") if op.inputs.get("Param")]
    for one, other in same_shaped(updates, "Param"):

        def swap(one: Any = one, other: Any = other) -> None:
            swap_slots(one, other, "Param")()
            one.outputs["ParamOut"], other.outputs["ParamOut"] = (
                other.outputs["ParamOut"],
                one.outputs["ParamOut"],
            )

        yield swap


@breaks("pairing", PAIRS)
def gradients_swapped(roles: Roles) -> Iterator[Edit]:
    sums = [op for _, _, op in ops(roles, "main", "sum", kind="pserver")]
    return (swap_slots(one, other, "X") for one, other in same_shaped(sums, "X"))


@breaks("pairing", PAIRS)
def one_trainers_gradients_swapped(roles: Roles) -> Iterator[Edit]:
    sums = [op for _, _, op in ops(roles, "main", "sum", kind="pserver")]
    for one, other in same_shaped(sums, "X"):

        def swap(one: Any = one, other: Any = other) -> None:
            one.inputs["X"][0], other.inputs["X"][0] = other.inputs["X"][0], one.inputs["X"][0]

        yield swap


@breaks("undeclared", SERVERS, ASYNC)
def variable_renamed(roles: Roles) -> Iterator[Edit]:
    for _, _, op in ops(roles, "main"):
        if op.type != "listen_and_serv" and not op.type.endswith("_grad"):
            yield from (
                renamer(names, index, names[index] + "x")
                for names in op.inputs.values()
                for index in range(len(names))
            )


@breaks("average", SERVERS)
def trainer_not_summed(roles: Roles) -> Iterator[Edit]:
    for _, _, op in ops(roles, "main", "sum", kind="pserver"):
        if any(".trainer_" in name for name in op.input("X")):
            yield lambda op=op: op.inputs["X"].pop()


@breaks("average", SERVERS)
def wrong_mean(roles: Roles) -> Iterator[Edit]:
    for block, number, op in ops(roles, "main", "scale", kind="pserver"):
        if op.input("X") == op.output("Out") and op.role == 0:
            yield setter(op, "scale", 1.0)
            yield remover(block, number)


# ---------------------------------------------------------------------- barriers and order
@breaks("barrier", SERVERS)
def barrier_dropped(roles: Roles) -> Iterator[Edit]:
    return (
        remover(block, number) for block, number, _ in ops(roles, "main", "send_barrier", "fetch_barrier")
    )


@breaks("barrier", SERVERS, ASYNC)
def first_barrier_dropped(roles: Roles) -> Iterator[Edit]:
    return (remover(block, number) for block, number, _ in ops(roles, "startup", "fetch_barrier"))


@breaks("barrier", SERVERS)
def barrier_doubled(roles: Roles) -> Iterator[Edit]:
    return (
        doubler(block, number) for block, number, _ in ops(roles, "main", "send_barrier", "fetch_barrier")
    )


@breaks("barrier", SERVERS)
def barrier_without_a_server(roles: Roles) -> Iterator[Edit]:
    return (
        setter(op, "endpoints", op.attrs["endpoints"][1:])
        for program in ("main", "startup")
        for _, _, op in ops(roles, program, "send_barrier", "fetch_barrier")
    )


@breaks("control", SERVERS)
def barrier_that_waits_for_less(roles: Roles) -> Iterator[Edit]:
    for _, _, op in ops(roles, "main", "send_barrier"):
        yield from ((lambda op=op, name=name: op.inputs["X"].remove(name)) for name in op.input("X"))


@breaks("deadlock", SERVERS)
def recv_before_barrier(roles: Roles) -> Iterator[Edit]:
    for block, number, _ in ops(roles, "main", "recv"):
        barrier = next(place for place, op in enumerate(block.ops) if op.type == "send_barrier")
        yield mover(block, number, barrier)


@breaks("order", SERVERS)
def send_behind_barrier(roles: Roles) -> Iterator[Edit]:
    for block, number, _ in ops(roles, "main", "send"):
        yield mover(
            block, number, next(place for place, op in enumerate(block.ops) if op.type == "send_barrier")
        )


@breaks("order", SERVERS, ASYNC)
def send_before_gradient(roles: Roles) -> Iterator[Edit]:
    for block, number, op in ops(roles, "main", "send"):
        if gradients(op):
            yield mover(block, number, 0)
            yield mover(block, number, number - 1)


@breaks("order", SERVERS, ASYNC)
def join_before_recv(roles: Roles) -> Iterator[Edit]:
    for block, number, _ in ops(roles, "main", "concat", kind="trainer"):
        yield mover(block, number, next(place for place, op in enumerate(block.ops) if op.type == "recv"))


@breaks("trainer-id", SERVERS, ASYNC)
def wrong_trainer_id(roles: Roles) -> Iterator[Edit]:
    return (
        setter(op, "trainer_id", op.attrs["trainer_id"] + 1)
        for program in ("main", "startup")
        for _, _, op in ops(roles, program, "recv", "send_barrier", "fetch_barrier")
    )


@breaks("trainer-id", SERVERS, ASYNC, RANKS, SNAPSHOTS)
def same_trainer_twice(roles: Roles) -> Iterator[Edit]:
    trainers = [role for role in roles if role.kind == "trainer"]
    for one, other in zip(trainers, [*trainers[1:], trainers[0]], strict=True):
        if one != other:
            yield lambda one=one, other=other: roles.__setitem__(one, roles[other])
