"""Single ops do in unusual rows (types, axes, sequences, selected rows) what PaddlePaddle 1.8.5 did."""

from __future__ import annotations

import functools

import pytest
from golden.op_rows import FAMILIES, recorded, rows_of
from golden.op_rows.observe import differences, observe

import fluidlite as fluid

# rows whose shape is a tensor feed gradients of the size that it holds, not of the declared one
pytestmark = pytest.mark.filterwarnings("ignore:.*is fed as:UserWarning")

ROWS = [(family, name) for family in FAMILIES for name in rows_of(family)]
# where 1.8.5 is wrong (docs/DIFFERENCES.md): a row's one difference
OTHERWISE = {
    "data_norm-slots": "numbers of X_0@GRAD",
    "elu-2": "numbers of Out",
    "elu-64_2": "numbers of Out",
    "increment-0": "gradients of ['X_0'], Paddle has []",
    "mish-1": "numbers of X_0@GRAD",
    "mish-64_1": "numbers of X_0@GRAD",
    "mish-attributes": "numbers of X_0@GRAD",
    "scatter-": "numbers of X_0@GRAD",
    "scatter-add": "numbers of X_0@GRAD",
    "scatter-vector": "numbers of X_0@GRAD",
    "soft_relu-1": "numbers of X_0@GRAD",
    "soft_relu-64_1": "numbers of X_0@GRAD",
    "softmax_with_cross_entropy-ignore": "numbers of Logits_0@GRAD",
}
_rows = functools.cache(rows_of)
_recorded = functools.cache(recorded)


@pytest.mark.parametrize(("family", "name"), ROWS, ids=[name for _, name in ROWS])
def test_as_recorded(family: str, name: str) -> None:
    row, theirs = _rows(family)[name], _recorded(family)[name]
    found = differences(row, observe(fluid, row), theirs)
    if name in OTHERWISE:
        assert len(found) == 1 and found[0].startswith(OTHERWISE[name]), found
    else:
        assert found == []
