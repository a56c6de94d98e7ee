"""Ways to break a correct set of roles, each with the rule that must catch it.

A mutation looks at a set of roles and gives the edits that it could make there, one a place; the caller makes
one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.ir.program import copy_operator
from fluidlite.transpiler.parts.roles import Programs, Role

Roles = dict[Role, Programs]
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
    """What a send sends that servers average (the step counters of asynchronous schedules are none)."""
    return [name for name in op.input("X") if "@GRAD" in name]


# ---------------------------------------------------------------------- messages
@breaks("no-sender", SERVERS, ASYNC)
def send_dropped(roles: Roles) -> Iterator[Edit]:
    return (remover(block, number) for block, number, _ in ops(roles, "main", "send"))


@breaks("not-fetched", SERVERS, ASYNC)
def recv_dropped(roles: Roles) -> Iterator[Edit]:
    return (remover(block, number) for block, number, _ in ops(roles, "main", "recv"))


@breaks("startup", SERVERS, ASYNC)
def first_recv_dropped(roles: Roles) -> Iterator[Edit]:
    return (remover(block, number) for block, number, _ in ops(roles, "startup", "recv"))


@breaks("no-receiver", SERVERS, ASYNC)
def send_endpoints_swapped(roles: Roles) -> Iterator[Edit]:
    for _, _, op in ops(roles, "main", "send"):
        if len(op.attrs["epmap"]) == 2 == len(op.input("X")):
            yield setter(op, "epmap", op.attrs["epmap"][::-1])
        other = next(
            (
                piece
                for _, _, piece in ops(roles, "main", "send")
                if piece.block is op.block
                and len(piece.attrs["epmap"]) == 1
                and piece.attrs["epmap"] != op.attrs["epmap"]
            ),
            None,
        )
        if other is not None and len(op.attrs["epmap"]) == 1:
            yield swapper(op, other, "epmap")


@breaks("not-held", SERVERS, ASYNC)
def recv_endpoints_swapped(roles: Roles) -> Iterator[Edit]:
    for program in ("main", "startup"):
        for _, _, op in ops(roles, program, "recv"):
            places = {endpoint for other in listens(roles) for endpoint in [other.attrs["endpoint"]]}
            yield setter(op, "epmap", [min(places - {endpoint}) for endpoint in op.attrs["epmap"]])


@breaks("endpoints", SERVERS, ASYNC)
def unknown_endpoint(roles: Roles) -> Iterator[Edit]:
    for program in ("main", "startup"):
        for _, _, op in ops(roles, program, "send", "recv"):
            yield setter(op, "epmap", ["127.0.0.1:1", *op.attrs["epmap"][1:]])
        for _, _, op in ops(roles, program, "fetch_barrier", "send_barrier"):
            yield setter(op, "endpoints", [*op.attrs["endpoints"], "127.0.0.1:1"])


@breaks("endpoints", SERVERS, ASYNC)
def endpoint_missing(roles: Roles) -> Iterator[Edit]:
    for program in ("main", "startup"):
        for _, _, op in ops(roles, program, "send", "recv"):
            if len(op.attrs["epmap"]) == len(op.input("X") if op.type == "send" else op.output("Out")):
                yield setter(op, "epmap", op.attrs["epmap"][1:])


@breaks("endpoints", SERVERS, ASYNC)
def server_moved(roles: Roles) -> Iterator[Edit]:
    return (setter(op, "endpoint", "127.0.0.1:1") for op in listens(roles))


@breaks("endpoints", SERVERS, ASYNC)
def server_missing(roles: Roles) -> Iterator[Edit]:
    return ((lambda role=role: roles.pop(role)) for role in list(roles) if role.kind == "pserver")


@breaks("listen", SERVERS, ASYNC)
def listen_dropped(roles: Roles) -> Iterator[Edit]:
    return (remover(block, number) for block, number, _ in ops(roles, "main", "listen_and_serv"))


@breaks("sent-twice", SERVERS, ASYNC)
def send_doubled(roles: Roles) -> Iterator[Edit]:
    return (doubler(block, number) for block, number, op in ops(roles, "main", "send") if gradients(op))


@breaks("no-receiver", SERVERS, ASYNC)
def expectation_dropped(roles: Roles) -> Iterator[Edit]:
    """The server forgets an arriving gradient everywhere in listen_and_serv."""
    for op in listens(roles):
        for name in op.input("X"):

            def forget(op: Any = op, name: str = name) -> None:
                op.inputs["X"].remove(name)
                op.attrs["grad_to_block_id"] = [
                    entry for entry in op.attrs["grad_to_block_id"] if entry.rpartition(":")[0] != name
                ]

            yield forget


@breaks("no-sender", SERVERS, ASYNC)
def expectation_renamed(roles: Roles) -> Iterator[Edit]:
    return (
        renamer(op.inputs["X"], index, op.input("X")[index] + "x")
        for op in listens(roles)
        for index in range(len(op.input("X")))
    )


@breaks("not-held", SERVERS, ASYNC)
def recv_renamed(roles: Roles) -> Iterator[Edit]:
    for program in ("main", "startup"):
        for _, _, op in ops(roles, program, "recv"):
            yield setter(op, "varnames", [name + "x" for name in op.output("Out")])


@breaks("undefined", SERVERS, ASYNC)
def gradient_op_dropped(roles: Roles) -> Iterator[Edit]:
    return (
        remover(block, number)
        for block, number, op in ops(roles, "main")
        if op.type.endswith("_grad") and op.role_vars
    )


@breaks("shared-name", SERVERS)
def sent_as_another_trainers(roles: Roles) -> Iterator[Edit]:
    sends = list(ops(roles, "main", "send"))
    for _, _, op in sends:
        for _, _, other in sends:
            if (
                other.block is not op.block
                and other.attrs["epmap"] == op.attrs["epmap"]
                and other.role_vars[0] == op.role_vars[0]
            ):

                def send(op: Any = op, other: Any = other) -> None:
                    op.inputs["X"] = other.input("X")
                    op.block.vars.update({name: other.block.var(name) for name in other.input("X")})

                yield send


# ---------------------------------------------------------------------- shapes and types
def trainer_vars(roles: Roles) -> Iterator[Any]:
    for block, _, op in ops(roles, "main", "send"):
        yield from (block.var(name) for name in gradients(op))


def server_vars(roles: Roles) -> Iterator[Any]:
    """What servers receive and hold."""
    for role, programs in roles.items():
        if role.kind == "pserver":
            block = programs.main.global_block()
            yield from (
                block.var(name)
                for _, _, op in ops({role: programs}, "main", "listen_and_serv")
                for name in op.input("X")
            )
            for _, _, op in ops({role: programs}, "main"):
                yield from (block.var(name) for name in op.inputs.get("Param", []))


def reshaper(var: Any) -> Edit:
    return lambda: setattr(var, "_shape", (var.shape[0] + 1, *var.shape[1:]))


def retyper(var: Any) -> Edit:
    return lambda: setattr(var, "_dtype", VarType.FP64 if var._dtype == VarType.FP32 else VarType.FP32)


@breaks("shape", SERVERS, ASYNC)
def trainer_shape(roles: Roles) -> Iterator[Edit]:
    return map(reshaper, trainer_vars(roles))


@breaks("shape", SERVERS, ASYNC)
def server_shape(roles: Roles) -> Iterator[Edit]:
    return map(reshaper, server_vars(roles))


@breaks("dtype", SERVERS, ASYNC)
def trainer_dtype(roles: Roles) -> Iterator[Edit]:
    return map(retyper, trainer_vars(roles))


@breaks("dtype", SERVERS, ASYNC)
def server_dtype(roles: Roles) -> Iterator[Edit]:
    return map(retyper, server_vars(roles))


@breaks("shape", SERVERS, ASYNC)
def initialiser_shape(roles: Roles) -> Iterator[Edit]:
    for _, _, op in ops(roles, "startup", kind="pserver"):
        if op.attrs.get("shape"):
            yield setter(op, "shape", [op.attrs["shape"][0] + 1, *op.attrs["shape"][1:]])


@breaks("slices", SERVERS, ASYNC)
def wrong_section(roles: Roles) -> Iterator[Edit]:
    for _, _, op in ops(roles, "main", "split_byref"):
        rows = op.attrs["sections"]
        yield setter(op, "sections", [rows[0] + 1, *rows[1:]])
        yield setter(op, "sections", rows[:-1])
        yield setter(op, "sections", [rows[0] + 1, rows[1] - 1, *rows[2:]])


@breaks("slices", SERVERS, ASYNC)
def slices_joined_in_another_order(roles: Roles) -> Iterator[Edit]:
    for program in ("main", "startup"):
        for _, _, op in ops(roles, program, "concat", kind="trainer"):
            yield lambda op=op: op.inputs["X"].reverse()


@breaks("slices", SERVERS, ASYNC)
def slice_not_joined(roles: Roles) -> Iterator[Edit]:
    for program in ("main", "startup"):
        for _, _, op in ops(roles, program, "concat", kind="trainer"):
            yield lambda op=op: op.inputs["X"].pop()


@breaks("slices", SERVERS, ASYNC)
def joined_as_columns(roles: Roles) -> Iterator[Edit]:
    return (
        setter(op, "axis", 1)
        for program in ("main", "startup")
        for _, _, op in ops(roles, program, "concat", kind="trainer")
    )


@breaks("unused", SERVERS, ASYNC)
def join_dropped(roles: Roles) -> Iterator[Edit]:
    return (
        remover(block, number)
        for program in ("main", "startup")
        for block, number, _ in ops(roles, program, "concat", kind="trainer")
    )


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


# ---------------------------------------------------------------------- sparse tables
def lookups(roles: Roles) -> Iterator[tuple[Any, int, Any]]:
    return (
        found
        for found in ops(roles, "main", "distributed_lookup_table", "lookup_table")
        if found[2].attrs.get("table_names")
    )


@breaks("not-held", TABLES)
def table_renamed(roles: Roles) -> Iterator[Edit]:
    return (
        setter(op, "table_names", [name + "x" for name in op.attrs["table_names"]])
        for _, _, op in lookups(roles)
    )


@breaks("not-held", TABLES)
def shards_swapped(roles: Roles) -> Iterator[Edit]:
    return (setter(op, "endpoints", op.attrs["endpoints"][::-1]) for _, _, op in lookups(roles))


@breaks("endpoints", TABLES)
def shard_without_endpoint(roles: Roles) -> Iterator[Edit]:
    return (setter(op, "endpoints", op.attrs["endpoints"][1:]) for _, _, op in lookups(roles))


@breaks("slices", TABLES)
def wrong_height(roles: Roles) -> Iterator[Edit]:
    for _, _, op in ops(roles, "main", "distributed_lookup_table", "split_selected_rows"):
        rows = op.attrs["height_sections"]
        yield setter(op, "height_sections", [rows[0] + 1, *rows[1:]])


@breaks("not-fetched", TABLES)
def lookup_of_the_local_table(roles: Roles) -> Iterator[Edit]:
    """The trainer looks rows up in its own copy, which nothing keeps up to date."""
    for block, number, op in lookups(roles):

        def local(block: Any = block, number: int = number, op: Any = op) -> None:
            op.attrs.update(table_names=[], endpoints=[], height_sections=[])

        yield local


@breaks("dtype", TABLES)
def rows_for_a_tensor(roles: Roles) -> Iterator[Edit]:
    for var in trainer_vars(roles):
        if var.type == VarType.SELECTED_ROWS:
            yield lambda var=var: setattr(var, "type", VarType.LOD_TENSOR)


# ---------------------------------------------------------------------- geo-SGD
@breaks("startup", GEO)
def parameter_not_received(roles: Roles) -> Iterator[Edit]:
    return (remover(block, number) for block, number, _ in ops(roles, "startup", "recv"))


@breaks("endpoints", GEO)
def unknown_place(roles: Roles) -> Iterator[Edit]:
    """The sends of the main program go to the trainer's own communicator, wherever they say."""
    for _, _, op in ops(roles, "startup", "recv"):
        yield setter(op, "epmap", ["127.0.0.1:1", *op.attrs["epmap"][1:]])
    for _, _, op in ops(roles, "startup", "fetch_barrier"):
        yield setter(op, "endpoints", [*op.attrs["endpoints"], "127.0.0.1:1"])


@breaks("blocks", GEO)
def difference_not_added(roles: Roles) -> Iterator[Edit]:
    for op in listens(roles):
        for index in range(len(op.attrs["optimize_blocks"])):
            yield setter(
                op,
                "optimize_blocks",
                [block for place, block in enumerate(op.attrs["optimize_blocks"]) if place != index],
            )


for _name in (
    "recv_renamed",
    "recv_endpoints_swapped",
    "wrong_fanin",
    "server_moved",
    "server_missing",
    "listen_dropped",
    "slices_joined_in_another_order",
    "slice_not_joined",
    "joined_as_columns",
    "join_dropped",
    "gradient_of_another_block",
    "block_run_twice",
    "initialiser_shape",
    "wrong_trainer_id",
    "first_barrier_dropped",
    "initialiser_dropped",
):
    GEO[_name] = SERVERS[_name]


# ---------------------------------------------------------------------- nccl2
def generators(roles: Roles) -> Iterator[Any]:
    return (op for _, _, op in ops(roles, "startup", "gen_nccl_id"))


@breaks("trainer-id", NCCL2)
def wrong_number(roles: Roles) -> Iterator[Edit]:
    return (setter(op, "trainer_id", op.attrs["trainer_id"] + 1) for op in generators(roles))


@breaks("nranks", NCCL2)
def trainer_missing(roles: Roles) -> Iterator[Edit]:
    return (setter(op, "trainers", op.attrs["trainers"][1:]) for op in generators(roles))


@breaks("nranks", NCCL2)
def trainer_named_twice(roles: Roles) -> Iterator[Edit]:
    return (
        setter(op, "trainers", [op.attrs["trainers"][0]] * len(op.attrs["trainers"]))
        for op in generators(roles)
    )


@breaks("endpoints", NCCL2)
def trainers_in_another_order(roles: Roles) -> Iterator[Edit]:
    return (setter(op, "trainers", op.attrs["trainers"][::-1]) for op in generators(roles))


@breaks("nranks", NCCL2)
def another_number_of_rings(roles: Roles) -> Iterator[Edit]:
    return (setter(op, "nccl_comm_num", op.attrs["nccl_comm_num"] + 1) for op in generators(roles))


@breaks("nranks", NCCL2)
def hierarchical_on_one_rank(roles: Roles) -> Iterator[Edit]:
    return (
        setter(op, "use_hierarchical_allreduce", not op.attrs["use_hierarchical_allreduce"])
        for op in generators(roles)
    )


@breaks("collective-order", NCCL2)
def backward_op_dropped(roles: Roles) -> Iterator[Edit]:
    return (
        remover(block, number)
        for block, number, op in ops(roles, "main")
        if op.type.endswith("_grad") and op.role_vars
    )


NCCL2["same_trainer_twice"] = SERVERS["same_trainer_twice"]
