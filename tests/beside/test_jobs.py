"""Random jobs: the same from the same seed, plain data, and without a fault of FluidLite's own."""

from __future__ import annotations

import json

import pytest

import fluidlite as fluid
from beside.jobs import build, differences, facts, make_job, prove


def test_a_seed_makes_one_job_of_plain_data() -> None:
    for seed in range(30):
        job = make_job(seed)
        assert job == make_job(seed) == json.loads(json.dumps(job))


def test_facts_are_plain_and_tell_programs_apart() -> None:
    job = make_job(2)
    found = facts(fluid, job)
    assert json.loads(json.dumps(found)) == found
    assert not differences(found, facts(fluid, job))
    assert differences(found, facts(fluid, {**job, "optimizer": ["SGD", {}]}))


# 7100007 asks for the rows of a table twice a step
@pytest.mark.parametrize("seed", [*range(12), 7100007])
def test_job_has_no_fault(seed: int) -> None:
    job = make_job(seed)
    assert build(fluid, job).main.global_block().ops
    found = prove(job)
    assert found.keys() <= {"refused"}, found
    assert "refused" not in found or "one parameter at a time" in found["refused"], found
