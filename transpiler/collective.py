"""Collective modes: every rank holds the whole program, and ops in it reduce gradients, or parameters, over
the ranks.

| class | startup program | main program |
|---|---|---|
| `GradAllReduce` | a communicator a ring, parameters from rank 0 | gradients are summed over the ranks, the loss gradient scaled by 1/ranks |
| `LocalSGD` | the same, and a snapshot of each parameter | ranks train alone; after the step the mean change is applied to the snapshot |
| `SingleProcessMultiThread` | one communicator of all devices of the process | as `GradAllReduce` |
| `MultiThread` | a communicator a ring | as `GradAllReduce`; `fuse_all_reduce` puts all gradients into one buffer |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fluidlite import unique_name
from fluidlite.base.dtypes import VarType, is_float
from fluidlite.base.errors import TranspilerError, did_you_mean
from fluidlite.ir.block import Block
from fluidlite.ir.operator import ROLE_ATTR, Operator, OpRole
from fluidlite.ir.program import Program, default_main_program, default_startup_program
from fluidlite.ir.variable import Variable
from fluidlite.transpiler.config import DistributeTranspilerConfig
from fluidlite.transpiler.parts.endpoints import parse_endpoints, rank_of
from fluidlite.transpiler.parts.insertions import Insertions
from fluidlite.transpiler.rings.buckets import all_reduce, make_buckets, wait, waves

__all__ = [
    "COLLECTIVE_MODES",
    "Collective",
    "GradAllReduce",
    "LocalSGD",
    "MultiThread",
    "Rank",
    "SingleProcessMultiThread",
    "collective_mode",
    "transpile_collective",
]

SNAPSHOT = "@SNAPSHOT"
_UPDATE_SLOTS = {"Param", "Grad"}  # adadelta has no learning rate
_SERVER_OPS = frozenset({"send", "recv", "listen_and_serv"})
_STARTUP_MARKS = frozenset({"c_comm_init", "c_comm_init_all", "gen_nccl_id", "recv"})
_MAIN_MARKS = frozenset({"c_sync_comm_stream", *_SERVER_OPS})


@dataclass(frozen=True)
class Rank:
    """One of the processes of a collective job."""

    index: int
    endpoints: tuple[str, ...]

    @property
    def endpoint(self) -> str:
        """Where this rank is reached."""
        return self.endpoints[self.index]

    @property
    def others(self) -> list[str]:
        """Where the other ranks are reached."""
        return [endpoint for endpoint in self.endpoints if endpoint != self.endpoint]


# ---------------------------------------------------------------------- guards
def check_programs(main: Program, startup: Program, served: bool = False) -> None:
    """TranspilerError where a program is transpiled already or has ops without a role; with `served`, one
    of a job with servers may be.
    """
    allowed = _SERVER_OPS if served else frozenset()
    for program, marks, what in (
        (startup, _STARTUP_MARKS - allowed, "startup"),
        (main, _MAIN_MARKS - allowed, "main"),
    ):
        for op in (op for block in program.blocks for op in block.ops):
            if op.type in marks:
                raise TranspilerError(
                    f"the {what} program is transpiled already: it has an op {op.type!r}; transpile a fresh "
                    f"copy "
                    "(program.clone() before the first time)"
                )
            if op.attrs.get(ROLE_ATTR, OpRole.NotSpecified) & OpRole.NotSpecified:
                raise TranspilerError(
                    f"op {op.type!r} of the {what} program has no role, so nobody knows which part of the "
                    f"job it "
                    f"belongs to\n  {op.call_text()}\n  built at {op.where}"
                )


def parameters_of(startup: Program, main: Program, trained: Sequence[str]) -> list[str]:
    """The parameters that the startup program initialises, in order of creation.

    Initialiser ops are prepended, so their order tells. A program that was parsed has its variables in any
    order, and none is marked as a parameter: then those count that are trained, or that forward ops read and
    the startup program keeps.
    """
    block = startup.global_block()
    for name in trained:
        if name not in block.vars:
            raise TranspilerError(
                f"the startup program does not initialise parameter {name!r}: it belongs to another program"
                f"{did_you_mean(name, block.vars)}"
            )
    found = {param.name for param in block.iter_parameters()} or {
        name for name in _read_forward(main) if _is_kept(block.vars.get(name))
    }
    first_writer = {
        name: -index for index, op in reversed(list(enumerate(block.ops))) for name in op.output_arg_names
    }
    return sorted({*found, *trained}, key=lambda name: (first_writer.get(name, 1), name))


def _read_forward(main: Program) -> set[str]:
    return {
        name
        for block in main.blocks
        for op in block.ops
        if op.role | OpRole.Loss == OpRole.Loss
        for name in op.input_arg_names
    }


def _is_kept(var: Variable | None) -> bool:
    return var is not None and var.persistable and var.type == VarType.LOD_TENSOR and is_float(var.dtype)


def trained_parameters(main: Program) -> list[str]:
    """The parameters that the program makes gradients of, by the ops that do; TranspilerError where there
    are none.
    """
    found = [
        name for op in main.global_block().ops if op.role & OpRole.Backward for name in op.role_vars[::2]
    ]
    if not found:
        raise TranspilerError(
            "the main program makes no gradient of a parameter, so there is nothing to reduce; call "
            "optimizer.minimize(loss) first, and transpile the training program, not the test program"
        )
    return list(dict.fromkeys(found))


# ---------------------------------------------------------------------- the startup program
def connect(edits: Insertions, rank: Rank, id_names: Sequence[str]) -> None:
    """Make a communicator for each ring: its id comes from rank 0, and is kept in the variable named."""
    for ring, name in enumerate(id_names):
        edits.block.create_var(name=name, persistable=True, type=VarType.RAW)
        edits.last(
            "c_gen_nccl_id",
            {},
            {"Out": name},
            OpRole.Forward,
            rank=rank.index,
            endpoint=rank.endpoint,
            other_endpoints=rank.others,
        )
        edits.last(
            "c_comm_init",
            {"X": name},
            {},
            OpRole.Forward,
            nranks=len(rank.endpoints),
            rank=rank.index,
            ring_id=ring,
        )


def broadcast(edits: Insertions, params: Sequence[str], nrings: int) -> None:
    """Give every rank the parameters of rank 0."""
    shared = [name for name in params if not is_distributed(edits.block, name)]
    for number, name in enumerate(shared):
        edits.last("c_broadcast", {"X": name}, {"Out": name}, OpRole.Forward, ring_id=number % nrings, root=0)
    for ring in range(nrings):
        edits.last("c_sync_comm_stream", {"X": params[-1]}, {"Out": params[-1]}, OpRole.Forward, ring_id=ring)


def is_distributed(block: Block, name: str) -> bool:
    """Whether each rank has a part of the parameter: then nothing is done to it."""
    return bool(getattr(block._find_var_recursive(name), "is_distributed", False))


def startup_of_rank(startup: Program, rank: Rank, id_names: Sequence[str], params: Sequence[str]) -> Program:
    """The startup program with a communicator for each ring, and all parameters as rank 0 has them."""
    new = startup.clone()
    edits = Insertions(new.global_block())
    connect(edits, rank, id_names)
    broadcast(edits, params, len(id_names))
    edits.apply()
    return new


def startup_of_devices(startup: Program, nrings: int = 1) -> Program:
    """The startup program with communicators among all devices of the process."""
    new = startup.clone()
    edits = Insertions(new.global_block())
    for ring in range(nrings):
        edits.last("c_comm_init_all", {}, {}, OpRole.Forward, ring_id=ring)
    edits.apply()
    return new


# ---------------------------------------------------------------------- gradients are reduced
def reduce_gradients(main: Program, nranks: int, nrings: int = 1, bucket_bytes: int = 0) -> Program:
    """The main program with its gradients averaged over `nranks` ranks; see `fluidlite.transpiler.rings.buckets`
    for `bucket_bytes`.
    """
    new = main.clone()
    block = new.global_block()
    edits = Insertions(block)
    for op in block.ops:
        if op.role == OpRole.Backward | OpRole.Loss:
            gradient = op.output_arg_names[0]
            edits.behind(op, "scale", {"X": gradient}, {"Out": gradient}, OpRole.Backward, scale=1.0 / nranks)
    passes = [(wave, make_buckets(block, wave, bucket_bytes)) for wave in waves(block)]
    all_reduce(edits, [bucket for _, buckets in passes for bucket in buckets], nrings)
    for wave, buckets in passes:
        wait(edits, wave, buckets, nrings)
    edits.apply()
    return new


# ---------------------------------------------------------------------- parameters are averaged
def declare_snapshots(block: Block, params: Iterable[str]) -> None:
    """The variables that keep each parameter as it was when the ranks last agreed."""
    for param in map(block._var_recursive, params):
        block.create_var(
            name=param.name + SNAPSHOT,
            shape=param.shape,
            dtype=param.dtype,
            persistable=True,
            stop_gradient=True,
        )


def take_snapshots(startup: Program, params: Sequence[str]) -> Program:
    """The startup program with a snapshot of each parameter at its end."""
    new = startup.clone()
    block = new.global_block()
    shared = [name for name in params if not is_distributed(block, name)]
    declare_snapshots(block, shared)
    edits = Insertions(block)
    for name in shared:
        edits.last("assign", {"X": name}, {"Out": name + SNAPSHOT}, OpRole.Forward)
    edits.apply()
    return new


def last_updates(block: Block) -> dict[str, Operator]:
    """Parameter -> the optimizer op that updates it last, in program order; a distributed parameter stays
    where it is.
    """
    found: dict[str, Operator] = {}
    for op in block.ops:
        if not op.role & OpRole.Optimize or not _UPDATE_SLOTS.issubset(op.inputs):
            continue
        name = op.input("Param")[0]
        if not is_distributed(block, name):
            found.pop(name, None)
            found[name] = op
    return found


def average_parameters(main: Program, nranks: int, nrings: int) -> Program:
    """The main program with each parameter moved by the mean change over `nranks` ranks since the snapshot.

    Between its last update and the end a parameter holds its change. Where other ops use parameters after an
    update (a moving average, a second loss), the changes are taken behind the last update and applied before
    the next such use. (Paddle lets them read the changes in the place of the parameters.)
    """
    new = main.clone()
    block = new.global_block()
    updates = last_updates(block)
    declare_snapshots(block, updates)
    edits = Insertions(block)
    anchors, user = _places(block, updates)
    for number, name in enumerate(updates):
        _take_change(edits, anchors[name], name, ring=(len(updates) - 1 - number) % nrings)
    put = edits.last if user is None else lambda *op, **attrs: edits.before(user, *op, **attrs)
    first = next(iter(updates))
    for ring in range(nrings):
        put("c_sync_comm_stream", {"X": first}, {"Out": first}, OpRole.Optimize, ring_id=ring)
    for name in updates:
        _apply_change(put, name, nranks)
    edits.apply()
    return new


def _places(block: Block, updates: dict[str, Operator]) -> tuple[dict[str, Operator], Operator | None]:
    """Behind which op each parameter's change is taken, and the first later op that uses a parameter
    (None: none does).
    """
    position = {op: index for index, op in enumerate(block.ops)}
    last = max(updates.values(), key=position.__getitem__)
    users = [
        op
        for op in block.ops
        for name in {*op.input_arg_names, *op.output_arg_names}
        if name in updates and position[op] > position[updates[name]]
    ]
    early = any(position[op] < position[last] for op in users)
    return {name: last if early else op for name, op in updates.items()}, next(
        (op for op in users if position[op] > position[last]), None
    )


def _take_change(edits: Insertions, anchor: Operator, name: str, ring: int) -> None:
    edits.behind(
        anchor, "elementwise_sub", {"X": [name + SNAPSHOT], "Y": [name]}, {"Out": [name]}, OpRole.Optimize
    )
    edits.behind(anchor, "c_sync_calc_stream", {"X": name}, {"Out": name}, OpRole.Optimize)
    edits.behind(anchor, "c_allreduce_sum", {"X": [name]}, {"Out": [name]}, OpRole.Optimize, ring_id=ring)


def _apply_change(put: Callable[..., Any], name: str, nranks: int) -> None:
    put("scale", {"X": [name]}, {"Out": [name]}, OpRole.Optimize, scale=1.0 / nranks)
    put("elementwise_sub", {"X": [name + SNAPSHOT], "Y": [name]}, {"Out": [name]}, OpRole.Optimize)
    put("assign", {"X": [name]}, {"Out": [name + SNAPSHOT]}, OpRole.Optimize)


# ---------------------------------------------------------------------- fluid's classes
class Collective:
    """The front door of a collective mode: `transpile` rewrites the two programs in place, or raises and
    leaves them untouched.

    `nrings` communicators are used in turn. Nothing here waits for a port, whatever `wait_port` says: the
    communicator does.
    """

    mode = ""
    alone = False  # whether `transpile` takes one endpoint

    def __init__(self, nrings: int) -> None:
        if isinstance(nrings, bool) or not isinstance(nrings, int) or nrings < 1:
            raise TranspilerError(f"nrings is {nrings!r}, but must be 1 or more")
        self.nrings = nrings
        self.endpoints: list[str] = []
        self.current_endpoint = ""
        self.nranks = 0
        self.rank = 0
        self.startup_program: Program | None = None
        self.main_program: Program | None = None
        self.wait_port = False

    def transpile(
        self,
        startup_program: Program | None,
        main_program: Program | None,
        rank: int,
        endpoints: str | Sequence[str],
        current_endpoint: str,
        wait_port: bool,
    ) -> None:
        """Make the programs those of `rank`, whose endpoint is `current_endpoint` (`endpoints`:
        "ip:port,ip:port" or a list).

        TranspilerError for endpoints that are malformed, repeated or too few, a rank that is not that of
        `current_endpoint`, and programs that make no gradients, are transpiled already, or have ops without a
        role.
        """
        known = parse_endpoints(endpoints)
        if len(known) < 2 and not self.alone:
            raise TranspilerError(f"the number of endpoints must > 1, but there is only {known[0]}")
        who = Rank(rank_of(rank, known, current_endpoint, "rank"), known)
        startup = default_startup_program() if startup_program is None else startup_program
        main = default_main_program() if main_program is None else main_program
        check_programs(main, startup)
        new_startup, new_main = self._rewrite(
            startup, main, who, [unique_name.generate("nccl_id") for _ in range(self.nrings)]
        )
        startup.take_over(new_startup)
        main.take_over(new_main)
        self.endpoints, self.current_endpoint, self.rank, self.nranks = (
            list(known),
            current_endpoint,
            who.index,
            len(known),
        )
        self.startup_program, self.main_program, self.wait_port = startup, main, wait_port

    def rewrite(self, startup: Program, main: Program, rank: Rank) -> tuple[Program, Program]:
        """The rank's startup and main programs; those that were given stay as they are. Raises what
        `transpile` raises of programs.
        """
        check_programs(main, startup)
        return self._rewrite(startup, main, rank, [f"nccl_id_{ring}" for ring in range(self.nrings)])

    def _rewrite(
        self, startup: Program, main: Program, rank: Rank, id_names: Sequence[str]
    ) -> tuple[Program, Program]:
        params = parameters_of(startup, main, trained_parameters(main))
        return startup_of_rank(startup, rank, id_names, params), main.clone()


class GradAllReduce(Collective):
    """Each step all ranks have the mean gradient; `bucket_bytes` > 0 lets gradients travel together
    (beyond fluid).
    """

    mode = "grad_allreduce"

    def __init__(self, nrings: int = 2, bucket_bytes: int = 0) -> None:
        super().__init__(nrings)
        self.bucket_bytes = bucket_bytes

    def _rewrite(
        self, startup: Program, main: Program, rank: Rank, id_names: Sequence[str]
    ) -> tuple[Program, Program]:
        params = parameters_of(startup, main, trained_parameters(main))
        return (
            startup_of_rank(startup, rank, id_names, params),
            reduce_gradients(main, len(rank.endpoints), self.nrings, self.bucket_bytes),
        )


class LocalSGD(Collective):
    """Ranks train alone, and after the step take the mean of what they changed."""

    mode = "local_sgd"
    snapshot_key = SNAPSHOT

    def __init__(self, nrings: int = 2) -> None:
        super().__init__(nrings)

    def snapshot_name(self, param_name: str) -> str:
        """The variable that keeps the parameter as it was when the ranks last agreed."""
        return param_name + self.snapshot_key

    def _rewrite(
        self, startup: Program, main: Program, rank: Rank, id_names: Sequence[str]
    ) -> tuple[Program, Program]:
        updates = last_updates(main.global_block())
        if not updates:
            raise TranspilerError(
                "the main program updates no parameter, so there is nothing to average; call "
                "optimizer.minimize(loss) first, and transpile the training program, not the test program"
            )
        params = parameters_of(startup, main, list(updates))
        return (
            take_snapshots(startup_of_rank(startup, rank, id_names, params), params),
            average_parameters(main, len(rank.endpoints), self.nrings),
        )


class SingleProcessMultiThread(GradAllReduce):
    """One process with a thread for each of its devices; `endpoints` only count the ranks."""

    mode = "single_process_multi_thread"
    alone = True

    def __init__(self, bucket_bytes: int = 0) -> None:
        super().__init__(1, bucket_bytes)

    def _rewrite(
        self, startup: Program, main: Program, rank: Rank, id_names: Sequence[str]
    ) -> tuple[Program, Program]:
        trained_parameters(main)
        return startup_of_devices(startup), reduce_gradients(main, len(rank.endpoints), 1, self.bucket_bytes)


class MultiThread(GradAllReduce):
    """PaddlePaddle 2's mode: the devices of one process, or one rank of several; "fuse_all_reduce" makes
    one buffer of all gradients.
    """

    mode = "multi_thread"
    alone = True

    def __init__(self, nrings: int = 1, trans_mode: str = "all_reduce", bucket_bytes: int = 0) -> None:
        if trans_mode not in ("all_reduce", "fuse_all_reduce"):
            raise TranspilerError(
                f"trans_mode is {trans_mode!r}, but must be 'all_reduce' or 'fuse_all_reduce' (no optimizer "
                f"op reads "
                f"gradients that are "
                f"gathered){did_you_mean(str(trans_mode), ['all_reduce', 'fuse_all_reduce'])}"
            )
        super().__init__(nrings, bucket_bytes or (1 << 62 if trans_mode == "fuse_all_reduce" else 0))
        self.trans_mode = trans_mode

    def _rewrite(
        self, startup: Program, main: Program, rank: Rank, id_names: Sequence[str]
    ) -> tuple[Program, Program]:
        new_startup, new_main = super()._rewrite(startup, main, rank, id_names)
        return (
            startup_of_devices(startup, self.nrings) if len(rank.endpoints) == 1 else new_startup
        ), new_main


# ---------------------------------------------------------------------- modes by name
COLLECTIVE_MODES: dict[str, Callable[[int, int], Collective]] = {  # of the number of rings and bucket_bytes
    "grad_allreduce": GradAllReduce,
    "local_sgd": lambda rings, limit: LocalSGD(rings),
    "single_process_multi_thread": lambda rings, limit: SingleProcessMultiThread(limit),
    "multi_thread": lambda rings, limit: MultiThread(rings, bucket_bytes=limit),
}


def collective_mode(name: str | None, config: DistributeTranspilerConfig) -> Collective:
    """The mode called `name` with the options of `config` (nccl_comm_num rings, bucket_bytes);
    TranspilerError for an unknown one.
    """
    if name not in COLLECTIVE_MODES:
        raise TranspilerError(
            f"invalid collective_mode: {name}{did_you_mean(str(name), COLLECTIVE_MODES)} "
            f"(one of {', '.join(COLLECTIVE_MODES)})"
        )
    if name == "local_sgd" and config.bucket_bytes:
        raise TranspilerError("mode 'local_sgd' reduces no gradients, so bucket_bytes must be 0")
    return COLLECTIVE_MODES[name](config.nccl_comm_num, config.bucket_bytes)


def transpile_collective(
    main: Program,
    startup: Program,
    trainer_id: int,
    trainers: str | Sequence[str],
    current_endpoint: str,
    config: DistributeTranspilerConfig,
) -> None:
    """Make the programs those of trainer `trainer_id` in mode `config.collective_mode`, in place.

    `trainers` are all trainers' endpoints, "ip:port,ip:port". Raises what `Collective.transpile` raises.
    """
    mode = collective_mode(config.collective_mode, config)
    mode.transpile(startup, main, trainer_id, trainers, current_endpoint, config.wait_port)
