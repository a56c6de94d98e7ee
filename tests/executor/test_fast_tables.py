"""Rows added to tables by compiled code, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from fluidlite.executor.compile.lowering.optimizer import RowUpdate
from fluidlite.executor.fast.loops.tables import RowAdder
from fluidlite.ops.training.optimizer import UPDATES, target_of
from fluidlite.values.tensor import SelectedRows


@pytest.mark.parametrize("width", [1, 10, 16, 33])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_are_added_as_often_as_they_come(width: int, dtype: str) -> None:
    random = np.random.RandomState(width)
    table, rows = (random.randn(count, width).astype(dtype) for count in (7, 40))
    ids = random.randint(0, 7, 40)
    wanted = table.copy()
    np.add.at(wanted, ids, -0.5 * rows)
    RowAdder(wait=True)(table, ids, rows, -0.5)
    np.testing.assert_allclose(table, wanted, rtol=1e-5, atol=1e-5)


def test_no_rows() -> None:
    table = np.ones((3, 2), np.float32)
    RowAdder(wait=True)(table, np.zeros(0, np.int64), np.zeros((0, 2), np.float32))
    assert (table == 1).all()


@pytest.mark.parametrize("wrong", [7, -1])
def test_a_row_that_there_is_not(wrong: int) -> None:
    table = np.ones((7, 4), np.float32)
    with pytest.raises(IndexError, match=f"row {wrong} is outside of a table of 7 rows"):
        RowAdder(wait=True)(table, np.array([3, wrong]), np.ones((2, 4), np.float32))
    assert (table == 1).all()


@pytest.mark.parametrize(("rows", "threads"), [(1, 1), (40, 1), (9000, 2)])
@pytest.mark.parametrize("kind", ["adagrad", "adam", "adamw", "ftrl"])
def test_updates_of_the_rows_touched(kind: str, rows: int, threads: int) -> None:
    random = np.random.RandomState(rows)
    rule = UPDATES[kind]
    steps = rule.special.steps if rule.special else rule.steps
    attributes = {name: attribute.default for name, attribute in rule.op.attr_defs.items()}
    ids = random.randint(0, 7 if rows < 100 else 5000, rows)
    grad = SelectedRows(ids, 5000, random.randn(rows, 10).astype("float32"))
    numbers = ("LearningRate", "Beta1Pow", "Beta2Pow")
    state = {
        name: np.full((), 0.5, "float32") if name in numbers else random.rand(5000, 10).astype("float32")
        for name, slot in rule.op.inputs.items()
        if name != "Grad" and not slot.optional
    }
    outputs = [name for name in rule.op.outputs if target_of(name) in state]
    found = []
    for loops in ("off", "wait"):
        moved = {name: value.copy() for name, value in state.items()}
        update = RowUpdate(np, list(steps), attributes, outputs, loops, threads)
        update(grad, moved)
        # none of them is left to NumPy
        assert update.compiled is None or all(code for _, code in update.compiled.codes.values())
        found.append(moved)
    for name in state:
        np.testing.assert_allclose(found[1][name], found[0][name], rtol=2e-5, atol=2e-6, err_msg=name)
    assert (found[1]["Param"] != state["Param"]).any(axis=1).sum() == len(np.unique(ids))
