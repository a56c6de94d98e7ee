"""The levels of detail that layers give, beside those that PaddlePaddle 1.8.5 gives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from recorded import levels

import fluidlite as fluid

RECORDED = levels.load()
CALLS = levels.calls()
# sequences that lie in sequences, whose offsets 1.8.5 takes for those of rows: refused, or kept
NESTED: dict[str, Any] = {
    "edit_distance": "KernelError",
    "row_conv": "ShapeError",
    "sequence_concat": "ShapeError",
    "ctc_greedy_decoder": [[[[1, 2], [1, 0, 2]], 0]],
}


def observed(name: str, kind: str, naive: bool) -> Any:
    try:
        found = levels.observe(fluid, CALLS[name], levels.LENGTHS[kind], naive)
    except fluid.core.EnforceNotMet as error:
        return type(error).__name__
    return json.loads(json.dumps(found))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("naive", [False, True])
@pytest.mark.parametrize("name", RECORDED)
def test_levels_are_those_of_paddle(name: str, naive: bool) -> None:
    for kind, wanted in RECORDED[name].items():
        # 1.8.5 has an error, or no such layer
        if isinstance(wanted, str):
            continue
        if kind == "nested":
            wanted = NESTED.get(name, wanted)
        assert observed(name, kind, naive) == wanted, kind


def test_most_layers_are_recorded() -> None:
    works = [
        name for name, found in RECORDED.items() if not all(isinstance(one, str) for one in found.values())
    ]
    assert RECORDED.keys() == CALLS.keys() and len(works) > 260
