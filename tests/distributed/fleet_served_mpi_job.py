"""A strategy of fleet with servers on one network, by two trainers and two servers of one `mpiexec`:

    mpiexec -n 4 python fleet_served_mpi_job.py "a_sync=False" ctr_dnn

Every process prints how far it ends from its reference: trainers in the parameters that they fetch, servers
in those that they hold. Trainers in step are compared with one process on the whole batches. Where they do
not wait for each other, servers note when they take which message, and trainers when they begin a step: all
processes are of one host and read one clock, so that this is the order in which a simulation takes them.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from fleet_proofs import CASES, NETS, Case, seated
from mpi4py import MPI

import fluidlite.paddle as paddle
from fluidlite.distributed.references import Initial, one_process
from fluidlite.distributed.replay import Merging, Replay
from fluidlite.distributed.replay_geo import GeoReplay
from fluidlite.distributed.shares import Values, get, max_relative_difference, put, share
from fluidlite.executor.comm.local.network import JobEvent
from fluidlite.executor.comm.messages import Kind
from fluidlite.executor.comm.mpi.link import MpiServerLink
from fluidlite.paddle.distributed import fleet
from fluidlite.transpiler.modes import Reference

SERVERS = ["127.0.0.1:6174", "127.0.0.1:6175"]
# each gradient goes out by itself, and each step ends with the newest parameters
AT_ONCE = {"max_merge_var_num": 1, "independent_recv_thread": False, "min_send_grad_num_before_recv": 1}
Log = list[list[Any]]


def noting(endpoint: str, log: Log) -> None:
    """Have the server of this process note the messages that it takes."""
    take = MpiServerLink.next_message

    def next_message(self: MpiServerLink, within: float | None = None) -> Any:
        found = take(self, within)
        if found is not None:
            message = found[1]
            rows = message.value.tolist() if message.kind is Kind.ROWS else None
            log.append(
                [time.monotonic_ns(), endpoint, message.trainer, message.kind.name, message.name, rows]
            )
        return found

    MpiServerLink.next_message = next_message  # type: ignore[method-assign]


def begins(trainer: int) -> list[Any]:
    """A trainer's note that it begins a step."""
    return [time.monotonic_ns(), "", trainer, None, "", None]


def serve(seat: fleet.Fleet, initial: Initial, endpoint: str, log: Log) -> Values:
    """Serve from the initial values; gives the slices that the server holds in the end."""
    scope = paddle.static.global_scope()
    mine = [piece for piece in initial.job.slices if piece.endpoint == endpoint]
    seat.init_server()
    for piece in mine:
        copies = initial.job.mode.copies(initial.job, role_at(initial.job, endpoint))
        value = initial.values[piece.param][piece.first_row : piece.end_row]
        put(scope, dict.fromkeys([piece.param_name, *copies.get(piece.param_name, ())], value))
    noting(endpoint, log)
    seat.run_server()
    return {piece.param_name: get(scope, piece.param_name) for piece in mine}


def role_at(job: Any, endpoint: str) -> Any:
    """The role of the server at an endpoint."""
    return next(role for role in job.roles if not role.trains and role.endpoint == endpoint)


def train(seat: fleet.Fleet, initial: Initial, programs: Any, feeds: list[Values], log: Log) -> Values:
    """Train on this trainer's share of the batches; gives its parameters."""
    main, startup = programs
    exe, scope = paddle.static.Executor(), paddle.static.global_scope()
    tables = {piece.param for piece in initial.job.slices if piece.sparse}
    exe.run(startup)
    put(scope, {name: initial.values[name] for name in tables})
    seat.init_worker()
    index = seat.worker_index()
    for feed in feeds:
        log.append(begins(index))
        exe.run(main, feed=share(feed, index, 2))
    log.append(begins(index))
    seat.stop_worker()
    return {name: get(scope, name) for name in dict.fromkeys(piece.param for piece in initial.job.slices)}


def simulated(initial: Initial, feeds: list[Values], log: Log) -> Replay | GeoReplay:
    """The job again, with the messages in the order of the clock."""
    job = initial.job
    names = {role.index: role.name for role in job.roles if role.trains}
    events = [
        JobEvent(endpoint, names[trainer], kind and Kind[kind], name, None if rows is None else tuple(rows))
        for _, endpoint, trainer, kind, name, rows in sorted(log, key=lambda line: line[0])
    ]
    shares = [[share(feed, index, 2) for feed in feeds] for index in range(2)]
    if job.mode.reference is Reference.CHANGES_IN_ORDER:
        return GeoReplay(job, initial, shares, events)
    return Replay(job, initial, shares, events, Merging())


def case_of(name: str) -> Case:
    """The case, with gradients that go out at once where trainers do not wait."""
    case = CASES[name]
    if not case.fields.get("a_sync"):
        return case
    chosen = {**case.fields.get("a_sync_configs", {}), **AT_ONCE}
    return Case(
        {**case.fields, "a_sync_configs": chosen}, case.optimizer, servers=2, tolerance=case.tolerance
    )


def main() -> None:
    world = MPI.COMM_WORLD
    number, trains = world.rank % 2, world.rank < 2
    role = fleet.Role.WORKER if trains else fleet.Role.SERVER
    who = fleet.UserDefinedRoleMaker(current_id=number, role=role, worker_num=2, server_endpoints=SERVERS)
    seat, programs, feeds = seated(case_of(sys.argv[1]), NETS[sys.argv[2]], who)
    initial = Initial(seat.job())
    log: Log = []
    if trains:
        found = train(seat, initial, programs, feeds, log)
    else:
        found = serve(seat, initial, SERVERS[number], log)
    logs = [json.loads(text) for text in world.allgather(json.dumps(log))]
    held, of_trainer, remote = wanted(initial, feeds, [line for each in logs for line in each], number)
    if trains:
        pairs = [(found[name], of_trainer[name]) for name in found if name not in remote]
    else:
        by_name = {piece.param_name: piece for piece in initial.job.slices}
        pairs = [
            (value, held[by_name[name].param][by_name[name].first_row : by_name[name].end_row])
            for name, value in found.items()
        ]
    print(f"{max(max_relative_difference(mine, other) for mine, other in pairs):.3e}", flush=True)


def wanted(initial: Initial, feeds: list[Values], log: Log, number: int) -> tuple[Any, Values, set[str]]:
    """The parameters of the servers, those of a trainer, and the tables that trainers do not hold."""
    if initial.job.mode.reference is Reference.ONE_PROCESS:
        whole = one_process(initial.job, initial, feeds)
        return whole, whole, {piece.param for piece in initial.job.slices if piece.sparse}
    replay = simulated(initial, feeds, log)
    return replay.servers, replay.trainers[number], replay.remote


if __name__ == "__main__":
    main()
