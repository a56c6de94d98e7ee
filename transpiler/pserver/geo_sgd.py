"""Geo-SGD: trainers update their own parameters, and now and then send the servers their changes.

The runtime's communicator does the sending: after every `geo_sgd_need_push_nums` steps it takes the change of
each parameter since it last heard from the servers (of a sparse table only the rows whose ids the main
program's `send` has named), sends it as `<param>.delta`, and receives the servers' parameter, to which all
trainers' changes have been added.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import TranspilerError
from fluidlite.ir.block import Block
from fluidlite.ir.operator import ROLE_ATTR, Operator, OpRole
from fluidlite.ir.program import Program
from fluidlite.transpiler.config import DistributedMode, DistributeTranspilerConfig, ServerRuntimeConfig
from fluidlite.transpiler.parts.edits import declare_like
from fluidlite.transpiler.parts.insertions import Insertions
from fluidlite.transpiler.parts.op_kinds import check_programs, is_lookup, last_updates
from fluidlite.transpiler.parts.roles import Programs, Slice
from fluidlite.transpiler.pserver.placement import Placement, place
from fluidlite.transpiler.pserver.server import declare_shared
from fluidlite.transpiler.pserver.trainer import Controls, receive_at_start
from fluidlite.transpiler.pserver.training import (
    ParameterUpdate,
    Training,
    is_clipping_alone,
    is_updating,
    trained_by_ops,
)

__all__ = [
    "change_name",
    "is_sparse",
    "make_geo_server",
    "make_geo_trainer",
    "place_for_geo",
    "pushed_slices",
    "sparse_lookups",
]

# The startup program's `send` names it, upon which the communicator takes its first copies
INITIAL = "param_init"


def change_name(name: str) -> str:
    """The variable that holds the change of a parameter, or of a slice."""
    return f"{name}.delta"


# ---------------------------------------------------------------------- where the parameters go
def place_for_geo(
    main: Program,
    startup: Program,
    endpoints: Sequence[str],
    trainers: int,
    config: DistributeTranspilerConfig,
) -> Placement:
    """The parameters over the servers. They hold nothing else: gradients, clips and schedules stay with the
    trainers.

    As in 1.8.5 parameters are cut up whatever `config.slice_var_up` says.
    `Slice.sparse` marks the tables that no startup program receives, which in 1.8.5 are those of
    `lookup_table`.
    """
    check_programs(main, startup)
    if config.enable_dc_asgd:
        raise TranspilerError(
            "enable_dc_asgd corrects delayed gradients, but in geo-SGD the servers receive no gradients"
        )
    updates = last_updates(main.global_block())
    if not updates:
        raise TranspilerError(
            "the program has no optimizer ops: call optimizer.minimize(loss) before transpiling it"
        )
    gradients = _gradients(main)
    missing = [name for name in updates if name not in gradients]
    if missing:
        raise TranspilerError(
            "no op of the program is marked as the one that computes the gradient of "
            f"{missing[0]!r}\n  built at {updates[missing[0]].where}"
        )
    # what an op trains by itself has no gradient: its change looks like the table
    gradients |= {table: table for table in trained_by_ops(main)}
    names = dict.fromkeys([*_by_first_op(main, updates), *trained_by_ops(main)])
    # no update ops: the servers only add what the trainers have changed
    training = Training(main, tuple(ParameterUpdate(name, gradients[name], ()) for name in names), ())
    # the caller's stays as it is
    config = config.copy()
    config.slice_var_up = True
    placement = place(training, startup, endpoints, trainers, False, config)
    unseen = {op.input("W")[0] for op in sparse_lookups(placement) if op.type == "lookup_table"}
    return replace(
        placement, slices=tuple(replace(piece, sparse=piece.param in unseen) for piece in placement.slices)
    )


def _by_first_op(main: Program, updates: Iterable[str]) -> list[str]:
    """The parameters in the order in which optimizer ops first speak of them: a decay or a clip may come
    before all updates. Clips of `set_gradient_clip` count as ops of the backward pass.
    """
    spoken_of = dict.fromkeys(
        name for op in main.global_block().ops if is_updating(op) for name in op.role_vars[::2]
    )
    return list(dict.fromkeys([*filter(set(updates).__contains__, spoken_of), *updates]))


def _gradients(main: Program) -> dict[str, str]:
    """Parameter -> its gradient as the backward pass makes it."""
    return {
        param: gradient
        for op in main.global_block().ops
        if op.role & OpRole.Backward
        for param, gradient in zip(op.role_vars[::2], op.role_vars[1::2], strict=True)
    }


def is_sparse(placement: Placement, param: str) -> bool:
    """True if only some rows of the parameter change in a step."""
    gradient = placement.updates[param].grad
    return placement.training.program.global_block()._var_recursive(gradient).type == VarType.SELECTED_ROWS


def pushed_slices(placement: Placement) -> OrderedDict[str, OrderedDict[str, list[str]]]:
    """Facts for the communicator: parameter -> names, rows ("sections") and servers ("epmap") of its slices,
    and whether it is sparse, all as text, as fluid's transpiler gives them.
    """
    found = OrderedDict()
    for param, pieces in placement.by_param.items():
        found[param] = OrderedDict(
            var_names=[piece.param_name for piece in pieces],
            sections=[str(piece.shape[0]) for piece in pieces],
            epmap=[piece.endpoint for piece in pieces],
            is_sparse=[str(is_sparse(placement, param))],
        )
    return found


# ---------------------------------------------------------------------- a trainer
def make_geo_trainer(placement: Placement, startup: Program, trainer: int) -> Programs:
    """The programs of trainer number `trainer`: the whole step, then the ids of sparse tables for the
    communicator.
    """
    main = placement.training.program.clone()
    first = startup.clone()
    _declare_changes(placement, main.global_block())
    for op in main.global_block().ops:
        # the whole table is here
        if op.type == "lookup_table":
            op._set_attr("remote_prefetch", False)
        if is_clipping_alone(op):
            op.attrs[ROLE_ATTR] = int(OpRole.Backward)
    # each once: several lookups may read one table by the same ids
    looked_up = dict.fromkeys((op.input("Ids")[0], op.input("W")[0]) for op in sparse_lookups(placement))
    _notify(main, [ids for ids, _ in looked_up], [table for _, table in looked_up])
    receive_at_start(placement, first, trainer)
    for param in placement.by_param:
        declare_like(first.global_block(), main.global_block().var(change_name(param)), persistable=False)
    first.global_block().create_var(name=INITIAL, is_data=True)
    _notify(first, [INITIAL], [INITIAL])
    return Programs(main, first)


def _declare_changes(placement: Placement, block: Block) -> None:
    """The variables that the communicator works with: the slices, and the change of each parameter and
    slice.
    """
    for param, pieces in placement.by_param.items():
        whole = block.var(param)
        gradient = block._var_recursive(placement.updates[param].grad)
        declare_like(block, gradient, change_name(param), whole.shape, persistable=False)
        for piece in pieces if len(pieces) > 1 else ():
            declare_like(block, whole, piece.param_name, piece.shape, persistable=False)
            declare_like(block, gradient, change_name(piece.param_name), piece.shape, persistable=False)


def _notify(program: Program, values: list[str], names: list[str]) -> None:
    """End with a `send` that gives the communicator `values` for the variables called `names`."""
    edits = Insertions(program.global_block())
    edits.last(
        "send", {"X": values}, {"Out": [Controls(edits.block).make()]}, OpRole.Forward, send_varnames=names
    )
    edits.apply()


def sparse_lookups(placement: Placement) -> list[Operator]:
    """The ops that read rows of sparse tables."""
    return [
        op
        for op in placement.training.program.global_block().ops
        if is_lookup(op) and op.input("W")[0] in placement.by_param and is_sparse(placement, op.input("W")[0])
    ]


# ---------------------------------------------------------------------- a server
def make_geo_server(
    placement: Placement, endpoint: str, threads: ServerRuntimeConfig | None = None
) -> Program:
    """The main program of the server at `endpoint`: it adds the trainers' changes to its slices as they
    arrive.
    """
    program = Program()
    program._seed = placement.training.program._seed
    held = [piece for piece in placement.slices if piece.endpoint == endpoint]
    for piece in held:
        _add_up(placement, piece, program)
    declare_shared(placement, endpoint, program.global_block())
    changes = [change_name(piece.param_name) for piece in held]
    attrs = {
        "optimize_blocks": program.blocks[1:],
        "endpoint": endpoint,
        "Fanin": placement.trainers,
        "distributed_mode": int(DistributedMode.GEO),
        "grad_to_block_id": [f"{name}:{index}" for index, name in enumerate(changes, 1)],
        "sparse_grad_to_param": [
            f"{name}:{piece.param_name}"
            for name, piece in zip(changes, held, strict=True)
            if is_sparse(placement, piece.param)
        ],
    }
    threads = threads or ServerRuntimeConfig()
    program.global_block().append_op("listen_and_serv", {}, {}, attrs | threads.attributes())
    return program


def _add_up(placement: Placement, piece: Slice, program: Program) -> None:
    """Declare a slice and its change, and add the one to the other in a block of its own."""
    block = program.global_block()
    origin = placement.training.program.global_block()
    name = piece.param_name
    change = change_name(piece.param_name)
    declare_like(block, origin.var(piece.param), name, piece.shape)
    gradient = origin._var_recursive(piece.grad)
    arriving = declare_like(block, gradient, change, piece.shape, persistable=False)
    # it comes from the trainers
    arriving.is_data = True
    inner = program._create_block(0)
    program.current_block_idx = 0
    inner.append_op("sum", {"X": [name, change]}, {"Out": name})
