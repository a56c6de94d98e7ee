"""docs/NAMES.md says which names of Paddle are there, and why the others are not."""

from __future__ import annotations

from names_page import PAGE, REASONS, exists, page, reason, recorded


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf8") == page(), "run `python tests/house/names_page.py`"


def test_names_are_looked_up() -> None:
    assert exists("fluid.layers", "fc")
    assert exists("fluid.optimizer", "PipelineOptimizer")
    assert not exists("fluid.layers", "fcc")
    assert not exists("fluid.no_such_module", "fc")


def test_what_programs_need_most_is_all_there() -> None:
    """Names of these modules are in the way of no program any more."""
    public = recorded()["public"]
    for module in (
        "fluid.io",
        "fluid.optimizer",
        "fluid.initializer",
        "fluid.layers.tensor",
        "fluid.metrics",
    ):
        assert [name for name in public[module] if not exists(module, name)] == []


def test_reasons_fit_the_longest_start_first() -> None:
    assert REASONS[-1][0] == ""
    assert reason("fluid.op", "CondOp").startswith("makes ops")
    assert reason("fluid.layers", "fcc") == "not there yet"
