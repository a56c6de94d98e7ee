"""Geo-SGD: trainers update their own parameters, and now and then send the servers what has changed.

The runtime's communicator does the sending: after every `geo_sgd_need_push_nums` steps it takes the change of
each parameter since it last heard from the servers (of a sparse table only the rows whose ids the main
program's `send` has named), sends it as `<param>.delta`, and receives the servers' parameter, to which all
trainers' changes have been added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import TranspilerError
from fluidlite.ir.block import Block
from fluidlite.ir.operator import ROLE_ATTR, Operator, OpRole
from fluidlite.ir.program import Program
from fluidlite.transpiler.collective import check_programs, last_updates
from fluidlite.transpiler.config import DistributedMode, DistributeTranspilerConfig, ServerRuntimeConfig
from fluidlite.transpiler.parts.edits import declare_like
from fluidlite.transpiler.parts.insertions import Insertions
from fluidlite.transpiler.parts.roles import Programs
from fluidlite.transpiler.pserver.placement import Layout, place
from fluidlite.transpiler.pserver.trainer import Controls, receive_at_start
from fluidlite.transpiler.pserver.training import Training, Update, is_clipping_alone

__all__ = ["DELTA", "geo_layout", "is_sparse", "make_geo_server", "make_geo_trainer", "sparse_lookups"]

DELTA = ".delta"
INITIAL = (
    "param_init"  # what the startup program's `send` names: the communicator then takes its first copies
)
_LOOKUPS = {"lookup_table", "lookup_table_v2"}


# ---------------------------------------------------------------------- where the parameters go
def geo_layout(
    main: Program,
    startup: Program,
    endpoints: Sequence[str],
    trainers: int,
    config: DistributeTranspilerConfig,
) -> Layout:
    """The parameters over the servers. They hold nothing else: gradients, clips and schedules stay with the
    trainers.

    As in 1.8.5 parameters are cut up whatever `config.slice_var_up` says.
    `Slice.sparse` marks the tables that no startup program receives, which in 1.8.5 are those of
    `lookup_table`.
    """
    check_programs(main, startup)
    if config.enable_dc_asgd:
        raise TranspilerError(
            "enable_dc_asgd corrects delayed gradients, but in geo-SGD the servers see none"
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
            f"no op of the program says that it makes the gradient of {missing[0]!r}\n  built at "
            f"{updates[missing[0]].where}"
        )
    training = Training(
        main, tuple(Update(name, gradients[name], ()) for name in _by_first_op(main, updates)), ()
    )
    config = config.copy()
    config.slice_var_up = True
    layout = place(training, startup, endpoints, trainers, False, config)
    unseen = {op.input("W")[0] for op in sparse_lookups(layout) if op.type == "lookup_table"}
    return replace(
        layout, slices=tuple(replace(piece, sparse=piece.param in unseen) for piece in layout.slices)
    )


def _by_first_op(main: Program, updates: Iterable[str]) -> list[str]:
    """The parameters in the order in which optimizer ops first speak of them: a decay or a clip may come
    before all updates.
    """
    spoken_of = dict.fromkeys(
        name for op in main.global_block().ops if op.role & OpRole.Optimize for name in op.role_vars[::2]
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


def is_sparse(layout: Layout, param: str) -> bool:
    """Whether only some rows of the parameter change in a step."""
    gradient = layout.updates[param].grad
    return layout.training.program.global_block()._var_recursive(gradient).type == VarType.SELECTED_ROWS


# ---------------------------------------------------------------------- a trainer
def make_geo_trainer(layout: Layout, startup: Program, trainer: int) -> Programs:
    """The programs of trainer number `trainer`: the whole step, then the ids of sparse tables for the
    communicator.
    """
    main, first = layout.training.program.clone(), startup.clone()
    _declare_changes(layout, main.global_block())
    for op in main.global_block().ops:
        if op.type == "lookup_table":
            op._set_attr("remote_prefetch", False)  # the whole table is here
        if is_clipping_alone(op):
            op.attrs[ROLE_ATTR] = int(OpRole.Backward)
    looked_up = dict.fromkeys((op.input("Ids")[0], op.input("W")[0]) for op in sparse_lookups(layout))
    _notify(main, [ids for ids, _ in looked_up], [table for _, table in looked_up])
    receive_at_start(layout, first, trainer)
    for param in layout.by_param:
        declare_like(first.global_block(), main.global_block().var(param + DELTA), persistable=False)
    first.global_block().create_var(name=INITIAL, is_data=True)
    _notify(first, [INITIAL], [INITIAL])
    return Programs(main, first)


def _declare_changes(layout: Layout, block: Block) -> None:
    """The variables that the communicator works with: the slices, and the change of each parameter and
    slice.
    """
    for param, pieces in layout.by_param.items():
        whole, gradient = block.var(param), block._var_recursive(layout.updates[param].grad)
        declare_like(block, gradient, param + DELTA, whole.shape, persistable=False)
        for piece in pieces if len(pieces) > 1 else ():
            declare_like(block, whole, piece.param_name, piece.shape, persistable=False)
            declare_like(block, gradient, piece.param_name + DELTA, piece.shape, persistable=False)


def _notify(program: Program, values: list[str], names: list[str]) -> None:
    """End with a `send` that gives the communicator `values` for the variables called `names`."""
    edits = Insertions(program.global_block())
    edits.last(
        "send", {"X": values}, {"Out": [Controls(edits.block).make()]}, OpRole.Forward, send_varnames=names
    )
    edits.apply()


def sparse_lookups(layout: Layout) -> list[Operator]:
    """The ops that read rows of sparse tables."""
    return [
        op
        for op in layout.training.program.global_block().ops
        if op.type in _LOOKUPS and op.input("W")[0] in layout.by_param and is_sparse(layout, op.input("W")[0])
    ]


# ---------------------------------------------------------------------- a server
def make_geo_server(layout: Layout, endpoint: str, threads: ServerRuntimeConfig | None = None) -> Program:
    """The main program of the server at `endpoint`: it adds the trainers' changes to its slices as they
    arrive.
    """
    threads, program = threads or ServerRuntimeConfig(), Program()
    program._seed = layout.training.program._seed
    block, origin = program.global_block(), layout.training.program.global_block()
    held = [piece for piece in layout.slices if piece.endpoint == endpoint]
    for piece in held:
        declare_like(block, origin.var(piece.param), piece.param_name, piece.shape)
        change = declare_like(
            block, origin._var_recursive(piece.grad), piece.param_name + DELTA, piece.shape, persistable=False
        )
        change.is_data = True  # it comes from the trainers
        _block(program).append_op(
            "sum", {"X": [piece.param_name, piece.param_name + DELTA]}, {"Out": piece.param_name}
        )
    block.append_op(
        "listen_and_serv",
        {},
        {},
        {
            "optimize_blocks": program.blocks[1:],
            "endpoint": endpoint,
            "Fanin": layout.trainers,
            "distributed_mode": int(DistributedMode.GEO),
            "grad_to_block_id": [f"{piece.param_name}{DELTA}:{index}" for index, piece in enumerate(held, 1)],
            "sparse_grad_to_param": [
                f"{piece.param_name}{DELTA}:{piece.param_name}"
                for piece in held
                if is_sparse(layout, piece.param)
            ],
            "rpc_get_thread_num": threads._rpc_get_thread_num,
            "rpc_send_thread_num": threads._rpc_send_thread_num,
            "rpc_prefetch_thread_num": threads._rpc_prefetch_thread_num,
        },
    )
    return program


def _block(program: Program) -> Block:
    block = program._create_block(0)
    program.current_block_idx = 0
    return block
