"""The strategies of fleet under a real `mpiexec`, by four processes."""

from __future__ import annotations

import re

import fleet_proofs
import pytest
from test_mpi import MPIEXEC, run, says

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec: pip install 'fluidlite[mpi]'"),
]


def test_every_strategy_on_every_network() -> None:
    done = run(4, "distributed/fleet_mpi_job.py")
    assert done.returncode == 0, says(done)
    page = fleet_proofs.PAGE.read_text().partition(fleet_proofs.MARKS[0])[2]
    rows = [line.split(" | ") for line in page.partition(fleet_proofs.MARKS[1])[0].splitlines()[2:]]
    alone = [row for row in rows if "a_sync" not in row[0]]
    proven = sum(cell != "refused" for row in alone for cell in row[1:-1])
    assert len(done.stdout.splitlines()) == proven, says(done)


@pytest.mark.parametrize("name, net", [("a_sync=False", "ctr_dnn"), ("a_sync=False, lamb", "MLP")])
def test_two_trainers_and_two_servers(name: str, net: str) -> None:
    done = run(4, "distributed/fleet_served_mpi_job.py", name, net)
    assert done.returncode == 0, says(done)
    found = [float(number) for number in re.findall(r"\d\.\d+e[+-]\d\d", done.stdout)]
    assert len(found) == 4 and max(found) <= fleet_proofs.CASES[name].tolerance, says(done)
