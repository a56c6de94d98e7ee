"""Jobs in threads that save checkpoints and go on from them, and all that their roles hold at the end."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fluidlite as fluid
from fluidlite.distributed import load_checkpoint, save_checkpoint
from fluidlite.distributed.trial import communicator_of
from fluidlite.executor.comm.local.network import LocalNetwork
from fluidlite.executor.comm.local.session import run_roles
from fluidlite.transpiler import DistributeTranspilerConfig, Job, JobRole, make_job
from fluidlite.values.scope import Scope

STEPS, SAVED, BATCH = 5, 2, 8
Values = dict[str, Any]
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": fluid.optimizer.SGD,
    "Momentum": lambda rate: fluid.optimizer.Momentum(rate, 0.9),
    "Adam": fluid.optimizer.Adam,
    "Adagrad": fluid.optimizer.Adagrad,
    "Adamax": fluid.optimizer.Adamax,
    "RMSProp": fluid.optimizer.RMSProp,
    "Adadelta": fluid.optimizer.Adadelta,
    "DecayedAdagrad": fluid.optimizer.DecayedAdagrad,
    "Ftrl": fluid.optimizer.Ftrl,
    "Lamb": fluid.optimizer.LambOptimizer,
    "Dpsgd": lambda rate: fluid.optimizer.Dpsgd(rate, clip=1.0, batch_size=8.0, sigma=0.1),
    "LarsMomentum": lambda rate: fluid.optimizer.LarsMomentum(rate, 0.9),
}


def net(optimizer: str = "Adam", sparse: bool = True) -> tuple[Any, Any, Any]:
    """Programs with everything that has a state: accumulators, a schedule, batch_norm, dropout, a table."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, y, ids = (
            fluid.data("x", [None, 20]),
            fluid.data("y", [None, 1]),
            fluid.data("ids", [None, 1], "int64"),
        )
        rows = fluid.layers.embedding(ids, [40, 5], is_sparse=sparse, param_attr="table")
        hidden = fluid.layers.fc(x, 10, act="tanh", param_attr="w", bias_attr="b")
        hidden = fluid.layers.dropout(fluid.layers.batch_norm(hidden), 0.25)
        guess = fluid.layers.fc(fluid.layers.concat([hidden, rows], 1), 1, param_attr="v", bias_attr=False)
        loss = fluid.layers.mean(fluid.layers.square_error_cost(guess, y))
        OPTIMIZERS[optimizer](fluid.layers.exponential_decay(0.1, 2, 0.9)).minimize(loss)
    return main, startup, loss


def job_of(
    mode: str = "pserver", servers: int = 2, optimizer: str = "Adam", trainers: int = 2, sync: bool = True
) -> Job:
    main, startup, _ = net(optimizer, sparse=mode == "pserver" and optimizer != "Dpsgd")
    config = DistributeTranspilerConfig()
    config.min_block_size = 20
    return make_job(main, startup, mode, trainers, servers, sync, config)


def feeds(index: int, trainers: int = 2) -> list[Values]:
    random = np.random.RandomState(7)
    whole = [
        {
            "x": random.randn(BATCH, 20).astype("float32"),
            "y": random.randn(BATCH, 1).astype("float32"),
            "ids": random.randint(0, 40, (BATCH, 1)),
        }
        for _ in range(STEPS)
    ]
    each = BATCH // trainers
    return [
        {name: value[index * each : (index + 1) * each] for name, value in batch.items()} for batch in whole
    ]


def state(scope: Scope, program: Any) -> Values:
    touched = {
        name
        for block in program.blocks
        for op in block.ops
        for name in (*op.input_arg_names, *op.output_arg_names)
    }
    return {
        var.name: np.array(held.value.array)
        for var in program.list_vars()
        if var.persistable
        and var.name in touched
        and (held := scope.find_var(var.name)) is not None
        and held.is_initialized()
        and isinstance(held.value, fluid.LoDTensor)
    }


def run(
    job: Job, folder: pathlib.Path, save_at: Sequence[int] = (), stop_at: int = STEPS
) -> dict[str, Values]:
    """Run a job in threads, from its newest checkpoint on; all variables of each role at the end."""

    def train(role: JobRole) -> Values:
        programs, scope, exe = job.programs(role), Scope(), fluid.Executor(fluid.CPUPlace())
        communicator = communicator_of(job, programs.main)
        if communicator is not None:
            communicator.start()
        exe.run(programs.startup, scope=scope)
        found = load_checkpoint(exe, folder, programs.main, scope)
        if not job.has_servers and found is None:
            same_start(scope, programs.main)
        mine = feeds(role.index, job.trainers)
        for step in range(found.step if found else 0, stop_at):
            assert not found or found.reader_position == {"batch": found.step, "of": role.index}
            exe.run(programs.main, feed=mine[step], scope=scope)
            if step + 1 in save_at:
                save_checkpoint(
                    exe,
                    folder,
                    programs.main,
                    step + 1,
                    reader_position={"batch": step + 1, "of": role.index},
                    scope=scope,
                )
        exe.close()
        return state(scope, programs.main)

    def serve(role: JobRole) -> Values:
        programs, scope, exe = job.programs(role), Scope(), fluid.Executor(fluid.CPUPlace())
        exe.run(programs.startup, scope=scope)
        load_checkpoint(exe, folder, programs.main, scope)
        exe.run(programs.main, scope=scope)
        return state(scope, programs.main)

    def work(role: JobRole) -> Callable[[], Values]:
        return lambda: train(role) if role.kind == "trainer" else serve(role)

    return run_roles(LocalNetwork(), [(role.name, work(role)) for role in job.roles])


def same_start(scope: Scope, program: Any) -> None:
    random = np.random.RandomState(3)
    for var in sorted(program.all_parameters(), key=lambda var: var.name):
        scope.find_var(var.name).get_tensor().set(random.rand(*var.shape).astype("float32"), fluid.CPUPlace())


def same(first: Values, second: Values) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert np.array_equal(value, second[name]), name


def parts(job: Job, found: dict[str, Values]) -> Values:
    """All that the servers hold, put together."""
    whole: Values = {}
    known = job.programs(job.roles[-1]).main._parameters_on_pservers
    at = {role.endpoint: found[role.name] for role in job.roles if role.kind == "pserver"}
    for name, pieces in known.get_distributed_vars_by_vtypes(
        ("Param", "RemotePrefetch", "Optimizer"), groupby=True
    ).items():
        arrays = [
            at[piece.endpoint][piece.slice.name] for piece in sorted(pieces, key=lambda piece: piece.block_id)
        ]
        whole[name] = np.concatenate(arrays) if pieces[0].is_slice else arrays[0]
    return whole
