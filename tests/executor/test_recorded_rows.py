"""Single ops do in unusual rows (types, axes, sequences, selected rows) what PaddlePaddle 1.8.5 did."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from golden.op_rows import FAMILIES, recorded, rows_of
from golden.op_rows.observe import differences, observe

import fluidlite as fluid

# what 1.8.5 refuses and these rows do
_MORE_HERE = {
    "elementwise": "equal-low_x equal-low_x_first not_equal-low_x not_equal-low_x_first less_than-low_x "
    "less_than-low_x_first logical_and-1 logical_and-2-2 logical_or-1 logical_or-2-2 logical_xor-1 "
    "logical_xor-2-2",
    "activations": "p_norm-3 p_norm-64_3 p_norm-4 p_norm-64_4 p_norm-5 p_norm-64_5 prelu-element_low",
    "shapes": "slice-empty",
    "lookups": "scatter-column roll-flat",
}
ROWS = [
    (family, name)
    for family in FAMILIES
    for name in rows_of(family)
    if name not in _MORE_HERE.get(family, "").split()
]
_rows = functools.cache(rows_of)
_recorded = functools.cache(recorded)


@pytest.mark.parametrize(("family", "name"), ROWS, ids=[name for _, name in ROWS])
def test_as_recorded(family: str, name: str) -> None:
    row, theirs = _rows(family)[name], _recorded(family)[name]
    assert differences(row, observe(fluid, row), theirs) == []


@pytest.mark.parametrize(
    ("family", "name"), [(family, name) for family, names in _MORE_HERE.items() for name in names.split()]
)
def test_more_than_recorded(family: str, name: str) -> None:
    mine: Any = observe(fluid, _rows(family)[name])
    assert _recorded(family)[name]["stage"] == "build"
    assert "values" in mine
