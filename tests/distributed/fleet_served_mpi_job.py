"""A strategy of fleet with servers on one network, by two trainers and two servers of one `mpiexec`:

    mpiexec -n 4 python fleet_served_mpi_job.py "a_sync=False" ctr_dnn

Every process prints how far it ends from one process on the whole batches: trainers in the parameters that
they fetch, servers in those that they hold.
"""

from __future__ import annotations

import sys
from typing import Any

from fleet_proofs import CASES, NETS, seated
from mpi4py import MPI

import fluidlite.paddle as paddle
from fluidlite.distributed.references import Initial, one_process
from fluidlite.distributed.shares import get, max_relative_difference, put, share
from fluidlite.paddle.distributed import fleet

SERVERS = ["127.0.0.1:6174", "127.0.0.1:6175"]


def serve(seat: fleet.Fleet, initial: Initial, mine: list[Any], feeds: list[dict[str, Any]]) -> float:
    """Serve from the initial values."""
    scope = paddle.static.global_scope()
    seat.init_server()
    for piece in mine:
        put(scope, {piece.param_name: initial.values[piece.param][piece.first_row : piece.end_row]})
    seat.run_server()
    wanted = one_process(initial.job, initial, feeds)
    rows = {piece: wanted[piece.param][piece.first_row : piece.end_row] for piece in mine}
    return max(max_relative_difference(get(scope, each.param_name), value) for each, value in rows.items())


def train(seat: fleet.Fleet, initial: Initial, programs: Any, feeds: list[dict[str, Any]]) -> float:
    """Train on this trainer's share of the batches."""
    main, startup = programs
    exe, scope = paddle.static.Executor(), paddle.static.global_scope()
    tables = {piece.param for piece in initial.job.slices if piece.sparse}
    seat.init_worker()
    exe.run(startup)
    put(scope, {name: initial.values[name] for name in tables})
    for feed in feeds:
        exe.run(main, feed=share(feed, seat.worker_index(), 2))
    wanted = one_process(initial.job, initial, feeds)
    found = [max_relative_difference(get(scope, name), wanted[name]) for name in wanted if name not in tables]
    seat.stop_worker()
    return max(found)


def main() -> None:
    rank = MPI.COMM_WORLD.rank
    role = fleet.Role.WORKER if rank < 2 else fleet.Role.SERVER
    who = fleet.UserDefinedRoleMaker(current_id=rank % 2, role=role, worker_num=2, server_endpoints=SERVERS)
    seat, programs, feeds = seated(CASES[sys.argv[1]], NETS[sys.argv[2]], who)
    job = seat.job()
    mine = [piece for piece in job.slices if piece.endpoint == SERVERS[rank % 2]]
    initial = Initial(job)
    found = train(seat, initial, programs, feeds) if rank < 2 else serve(seat, initial, mine, feeds)
    print(f"{found:.3e}", flush=True)


if __name__ == "__main__":
    main()
