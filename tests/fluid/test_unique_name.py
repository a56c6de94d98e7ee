"""Counters of names: replaced as a pair, and put back."""

from __future__ import annotations

import fluidlite as fluid


def test_a_pair_is_replaced_and_put_back() -> None:
    with fluid.unique_name.guard():
        assert fluid.unique_name.generate("fc") == "fc_0"
        pair = fluid.unique_name.switch()
        assert len(pair) == 2
        assert fluid.unique_name.generate("fc") == "fc_0"
        inner = fluid.unique_name.switch(*pair)
        assert fluid.unique_name.generate("fc") == "fc_1"
        assert inner[0] is not pair[0] and inner[1] is not pair[1]


def test_a_guard_leaves_the_pair_as_it_was() -> None:
    before = fluid.unique_name.generator, fluid.unique_name.dygraph_parameter_name_checker
    with fluid.unique_name.guard("a/"):
        assert fluid.unique_name.generate("fc") == "a/fc_0"
    assert (fluid.unique_name.generator, fluid.unique_name.dygraph_parameter_name_checker) == before
