"""Every strategy of fleet on every network is proven, or refused; the page has the table of it."""

from __future__ import annotations

import fleet_proofs
import pytest
from fleet_proofs import CASES, NETS

from fluidlite.transpiler.check.report import check
from fluidlite.transpiler.parts.op_kinds import reduces

TABLE = fleet_proofs.between(fleet_proofs.MARKS).splitlines()
ROWS = {line.split(" | ")[0].removeprefix("| "): line for line in TABLE}


@pytest.mark.parametrize("name", CASES)
def test_strategy(name: str) -> None:
    found = fleet_proofs.row(name)
    cells, written = found.split(" | ")[1:], ROWS[name].split(" | ")[1:]
    assert [cell == "refused" for cell in cells[:-1]] == [cell == "refused" for cell in written[:-1]]
    assert cells[-1] == written[-1] and len(cells) == len(NETS) + 1
    largest = [float(cell) for cell in cells[:-1] if cell != "refused"]
    assert all(value <= CASES[name].tolerance for value in largest)


@pytest.mark.parametrize("name", ["gradient_merge", "localsgd", "use_hierarchical_allreduce"])
def test_a_reduction_that_lacks_is_found(name: str) -> None:
    case = CASES[name]
    seat, _, _ = fleet_proofs.seated(case, NETS["MLP"], fleet_proofs.role(case))
    job = seat.job()
    assert check(job).ok
    for role in job.roles:
        block = next(
            block for block in reversed(job.programs(role).main.blocks) if any(map(reduces, block.ops))
        )
        block.remove_ops([next(filter(reduces, block.ops))])
    assert not check(job).ok


def test_table_has_all_strategies() -> None:
    assert [line.split(" | ")[0] for line in TABLE[2:]] == [f"| {name}" for name in CASES]
