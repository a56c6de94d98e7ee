"""Ways to break what trainers and servers send each other: messages, shapes, types; see `mutation_kit`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mutation_kit import (
    ASYNC,
    SERVERS,
    Edit,
    Roles,
    breaks,
    doubler,
    gradients,
    listens,
    ops,
    remover,
    renamer,
    reshaper,
    retyper,
    setter,
    swapper,
    trainer_vars,
)


# ---------------------------------------------------------------------- messages
@breaks("no-sender", SERVERS, ASYNC)
def send_dropped(roles: Roles) -> Iterator[Edit]:
    return (remover(block, number) for block, number, _ in ops(roles, "main", "send"))


@breaks("not-fetched", SERVERS, ASYNC)
def recv_dropped(roles: Roles) -> Iterator[Edit]:
    return (remover(block, number) for block, number, _ in ops(roles, "main", "recv"))


@breaks("fetched-twice", SERVERS, ASYNC)
def recv_doubled(roles: Roles) -> Iterator[Edit]:
    return (doubler(block, number) for block, number, _ in ops(roles, "main", "recv"))


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


def server_vars(roles: Roles) -> Iterator[Any]:
    """Variables that servers receive and hold."""
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
