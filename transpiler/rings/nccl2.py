"""Mode "nccl2": the main program stays as it is, and the runtime reduces its gradients over the
communicators made at start-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import TranspilerError
from fluidlite.ir.operator import OpRole
from fluidlite.ir.program import Program
from fluidlite.transpiler.collective import Rank, check_programs
from fluidlite.transpiler.config import DistributeTranspilerConfig
from fluidlite.transpiler.parts.endpoints import parse_endpoints, rank_of
from fluidlite.transpiler.parts.insertions import Insertions

__all__ = ["describe_nccl2", "rewrite_nccl2", "transpile_nccl2"]


def rewrite_nccl2(startup: Program, rank: Rank, config: DistributeTranspilerConfig) -> Program:
    """The startup program of `rank`, with one `gen_nccl_id` that fetches the ids of all communicators.

    There are `config.nccl_comm_num` communicators (NCCLID, NCCLID_1, ...) and, with
    `config.use_hierarchical_allreduce`, as many within and between groups of
    `config.hierarchical_allreduce_inter_nranks` trainers.
    """
    _check_options(config, len(rank.endpoints))
    new = startup.clone()
    block = new.global_block()
    for name in _id_names(config):
        block.create_var(name=name, persistable=True, type=VarType.RAW)
    edits = Insertions(block)
    edits.last(
        "gen_nccl_id",
        {},
        {"NCCLID": "NCCLID"},
        OpRole.Forward,
        trainers=list(rank.endpoints),
        trainer_id=rank.index,
        nccl_comm_num=config.nccl_comm_num,
        use_hierarchical_allreduce=bool(config.use_hierarchical_allreduce),
        hierarchical_allreduce_inter_nranks=config.hierarchical_allreduce_inter_nranks,
    )
    edits.apply()
    return new


def _id_names(config: DistributeTranspilerConfig) -> list[str]:
    """The variables that hold the ids, as the runtime looks for them."""
    numbers = range(config.nccl_comm_num)
    flat = ["NCCLID" if number == 0 else f"NCCLID_{number}" for number in numbers]
    if not config.use_hierarchical_allreduce:
        return flat
    return flat + [
        f"Hierarchical_{side}_NCCLID_{number}" for number in numbers for side in ("inter", "exter")
    ]


def _check_options(config: DistributeTranspilerConfig, trainers: int) -> None:
    if config.nccl_comm_num < 1:
        raise TranspilerError(f"nccl_comm_num is {config.nccl_comm_num}, but must be 1 or more")
    if config.bucket_bytes:
        raise TranspilerError(
            "mode 'nccl2' leaves the reduction of gradients to the runtime, so bucket_bytes must be 0 "
            "(BuildStrategy.fuse_all_reduce_ops groups them there)"
        )
    if not config.use_hierarchical_allreduce:
        return
    group = config.hierarchical_allreduce_inter_nranks
    if group <= 1:
        raise TranspilerError(
            f"hierarchical_allreduce_inter_nranks is {group}: say how many trainers form a group (those of "
            f"one "
            "machine), at least 2"
        )
    if trainers <= group or trainers % group:
        raise TranspilerError(
            f"hierarchical_allreduce_inter_nranks is {group}, which does not divide the {trainers} trainers "
            f"into "
            "several groups"
        )


def describe_nccl2(main: Program, rank: Rank, config: DistributeTranspilerConfig) -> None:
    """Tell the runtime, through the main program, who the trainers are and how to reduce."""
    hierarchical = bool(config.use_hierarchical_allreduce)
    main.distribution = replace(
        main.distribution,
        trainers=rank.endpoints,
        rings=config.nccl_comm_num,
        hierarchical=hierarchical,
        group=config.hierarchical_allreduce_inter_nranks if hierarchical else main.distribution.group,
    )


def transpile_nccl2(
    main: Program,
    startup: Program,
    trainer_id: int,
    trainers: str | Sequence[str],
    current_endpoint: str,
    config: DistributeTranspilerConfig,
) -> None:
    """Make the programs those of trainer `trainer_id`, in place; `trainers` are all trainers' endpoints,
    "ip:port,ip:port".

    TranspilerError for endpoints that are malformed, repeated or lack the current one, for communicators that
    do not fit the trainers, and for programs that are transpiled already or have ops without a role.
    """
    known = parse_endpoints(trainers, "trainers")
    rank = Rank(rank_of(trainer_id, known, current_endpoint), known)
    check_programs(main, startup, served=True)  # fluid's own example asks for both kinds of job in turn
    new = rewrite_nccl2(startup, rank, config)
    startup.take_over(new)
    describe_nccl2(main, rank, config)
