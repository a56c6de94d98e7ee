"""The levels of detail that layers give, beside those that PaddlePaddle 1.8.5 gives."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
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


@pytest.mark.parametrize("sizes, axis, level", [([4, 2], 2, 0), ([4, 2], 1, 1), ([1, 2], 2, 1), ([2], 2, 0)])
def test_flatten_of_rows_that_are_not_declared(sizes: list[int], axis: int, level: int) -> None:
    x = fluid.data("x", [-1, *sizes], "float32", lod_level=1)
    assert fluid.layers.flatten(x, axis=axis).lod_level == level


@pytest.mark.parametrize("naive", [False, True])
def test_children_and_their_leaves_have_the_sequences_of_their_parents(naive: bool) -> None:
    tree = np.array([[0, 0, 0, 0, 0], [0, 0, 0, 2, 3], [5, 1, 1, 0, 0], [6, 1, 1, 0, 0]], "int32")
    initializer = fluid.initializer.NumpyArrayInitializer(tree)
    x = fluid.data("x", [-1, 1], "int32", lod_level=1)
    found = fluid.contrib.layers.tdm_child(x, 4, 2, fluid.ParamAttr(initializer=initializer))
    assert [var.lod_level for var in found] == [1, 1]
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    exe.run(fluid.default_startup_program())
    fed = fluid.create_lod_tensor(np.array([[0], [1], [2]], "int32"), [[2, 1]], fluid.CPUPlace())
    values = exe.run(feed={"x": fed}, fetch_list=list(found), return_numpy=False)
    assert [value.recursive_sequence_lengths() for value in values] == [[[2, 1]]] * 2
