"""Every strategy of fleet without servers, on every network, by the processes of one `mpiexec`:

    mpiexec -n 4 python fleet_mpi_job.py

Rank 0 prints a line for each, and stops the job where a rank ends elsewhere than the reference says.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from fleet_proofs import CASES, NETS, Case, seated

import fluidlite.paddle as paddle
from fluidlite.base.errors import UnsupportedError
from fluidlite.distributed.references import Initial, averaging_processes, one_process
from fluidlite.distributed.shares import get, max_relative_difference, put, share
from fluidlite.paddle.distributed import fleet
from fluidlite.transpiler.modes import Reference


def difference(case: Case, net: Any) -> float:
    """How far this rank ends from its reference."""
    who = fleet.PaddleCloudRoleMaker(is_collective=True)
    seat, (main, startup), feeds = seated(case, net, who)
    job, rank, ranks = seat.job(), seat.worker_index(), seat.worker_num()
    initial = Initial(job)
    exe, scope = paddle.static.Executor(), paddle.static.Scope()
    exe.run(startup, scope=scope)
    put(scope, initial.values)
    for name, copies in job.mode.copies(job, job.roles[rank]).items():
        put(scope, dict.fromkeys(copies, initial.values[name]))
    for feed in feeds:
        exe.run(main, feed=share(feed, rank, ranks), scope=scope)
    if job.mode.reference is Reference.AVERAGING:
        shares = [[share(feed, index, ranks) for feed in feeds] for index in range(ranks)]
        wanted = averaging_processes(job, initial, shares)[rank]
    else:
        wanted = one_process(job, initial, feeds)
    mine = max(max_relative_difference(get(scope, name), value) for name, value in wanted.items())
    return float(np.max(seat.util.all_reduce(mine, "max")))


def main() -> None:
    first = fleet.Fleet().init(is_collective=True).is_first_worker()
    for name, case in CASES.items():
        for net_name, net in NETS.items() if not case.servers else ():
            try:
                found = difference(case, net)
            except UnsupportedError:
                continue
            assert found <= case.tolerance, f"{name}, {net_name}: {found}"
            if first:
                print(f"{name}, {net_name}: {found:.0e}", flush=True)


if __name__ == "__main__":
    main()
