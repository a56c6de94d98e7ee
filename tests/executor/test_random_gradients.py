"""Gradients of random programs whose variables are written over: right by central differences."""

import os

import pytest
import random_gradients

# inplace_abn and batch_norm move running statistics that no test reads
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize("seed", range(12))
def test_gradients_of_a_random_program(seed: int) -> None:
    random_gradients.check(seed)


@pytest.mark.parametrize("seed", range(12))
def test_gradients_where_not_all_results_of_an_op_are_read(seed: int) -> None:
    random_gradients.check(seed, parts=True)


@pytest.mark.slow
def test_gradients_of_many_random_programs() -> None:
    """FLUIDLITE_SEED is the first seed, FLUIDLITE_PROGRAMS says how many follow."""
    first = int(os.environ.get("FLUIDLITE_SEED", "1000"))
    wrong = []
    for seed in range(first, first + int(os.environ.get("FLUIDLITE_PROGRAMS", "5000"))):
        program = random_gradients.Author(seed).program()
        if random_gradients.is_wrong(program, seed):
            wrong.append((seed, random_gradients.shrink(program, seed)))
    assert not wrong, "\n".join(map(str, wrong))
