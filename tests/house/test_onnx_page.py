"""docs/ONNX.md lists the ops that have a rule, and every rule is of an op that exists."""

from __future__ import annotations

from onnx_page import PAGE, page

from fluidlite.base import registry
from fluidlite.saving.onnx.graph import RULES


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf8") == page(), "run `python tests/house/onnx_page.py`"


# written before the op itself: files of 2.x have them
LATER = {"multiclass_nms3", "linear_interp"}


def test_rules_are_of_ops() -> None:
    assert {name for name in RULES if registry.find(name) is None} <= LATER
