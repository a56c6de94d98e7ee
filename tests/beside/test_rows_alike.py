"""Functions whose inputs have one row for each of the others' are refused where one of them has a single
row, which NumPy would repeat.
"""

from __future__ import annotations

import random

import pytest

from beside.draw import Draw, generators
from beside.language import Case, array_of, listed
from beside.observe import Observer
from beside.worker import System
from fluidlite.cli.scripts.names import paddle_names

# the inputs that have as many rows as the first
ALIKE = {
    "fluid.contrib.layers.partial_sum": "x1",
    "fluid.layers.bpr_loss": "x1",
    "fluid.layers.center_loss": "x1",
    "fluid.layers.fsp_matrix": "x1",
    "fluid.layers.hsigmoid": "x1",
    "fluid.layers.mean_iou": "x1",
    "fluid.layers.nce": "x1",
    "fluid.layers.sigmoid_focal_loss": "x1",
    "fluid.layers.box_decoder_and_assign": "x3",
    "fluid.layers.deformable_conv": "x1",
}


def drawn(name: str, other: str) -> Case:
    """The first case in which the other input has several rows: then one, of a batch that is not declared."""
    for seed in range(100):
        draw = Draw(random.Random(f"{name} {seed}"), "18")
        generators("18")[name](draw, name)
        feed = draw.feeds[other]
        if feed["shape"][0] > 1 and not feed.get("lengths"):
            break
    for one in draw.feeds.values():
        one["declared"][0] = -1
    array = array_of(feed)[:1]
    feed.update(shape=list(array.shape), values=listed(array))
    outputs = [draw.calls[-1]["to"]]
    return {"door": "18", "function": name, "feeds": draw.feeds, "calls": draw.calls, "outputs": outputs}


@pytest.mark.parametrize("name", ALIKE)
def test_a_single_row_is_not_repeated(name: str) -> None:
    with paddle_names():  # a worker has them for good
        facts = Observer(System("ours", "18"), drawn(name, ALIKE[name])).observe(["runs"])
    assert "error" not in facts["build"]
    assert facts["runs"].get("error") == "ShapeError", facts["runs"]
