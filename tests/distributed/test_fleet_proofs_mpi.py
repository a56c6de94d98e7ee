"""The strategies of fleet under a real `mpiexec`, by four processes."""

from __future__ import annotations

import re

import fleet_proofs
import pytest
from mpi_jobs import run, says

pytestmark = pytest.mark.mpi


def test_every_strategy_on_every_network() -> None:
    done = run(4, "distributed/fleet_mpi_job.py")
    assert done.returncode == 0, says(done)
    rows = [row for row in table(fleet_proofs.MARKS) if "a_sync" not in row[0]]
    proven = sum(cell != "refused" for row in rows for cell in row[1:-1])
    assert len(done.stdout.splitlines()) == proven, says(done)


def table(marks: tuple[str, str]) -> list[list[str]]:
    """The rows of one of the page's tables."""
    lines = fleet_proofs.between(marks).splitlines()[2:]
    return [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in lines]


def test_the_table_of_processes_has_what_is_proven() -> None:
    proven = {row[0]: row[1:-1] for row in table(fleet_proofs.MARKS) if set(row[1:-1]) != {"refused"}}
    written = {row[0]: row[1:] for row in table(fleet_proofs.PROCESSES)}
    cases = fleet_proofs.CASES
    assert list(written) == list(proven)
    for name, cells in written.items():
        assert [cell == "refused" for cell in cells] == [cell == "refused" for cell in proven[name]]
        assert all(float(cell) <= cases[name].tolerance for cell in cells if cell != "refused"), name


@pytest.mark.parametrize(
    "name, net",
    [
        ("a_sync=False", "ctr_dnn"),
        ("a_sync=False, lamb", "MLP"),
        ("a_sync", "ctr_dnn"),
        ("a_sync, k_steps=-1", "word2vec"),
        ("a_sync, k_steps=2", "ctr_dnn"),
    ],
)
def test_two_trainers_and_two_servers(name: str, net: str) -> None:
    done = run(4, "distributed/fleet_served_mpi_job.py", name, net)
    assert done.returncode == 0, says(done)
    found = [float(number) for number in re.findall(r"\d\.\d+e[+-]\d\d", done.stdout)]
    assert len(found) == 4 and max(found) <= fleet_proofs.CASES[name].tolerance, says(done)
