"""Parameters that several layers declare, and the ops that fill them."""

from __future__ import annotations

import pytest

import fluidlite as fluid


def shared(startup: fluid.Program) -> None:
    with fluid.program_guard(fluid.Program(), startup):
        fluid.layers.fc(fluid.data("x", [None, 4]), 3, param_attr="w", bias_attr=False)


def test_what_passes_a_value_on_fills_nothing() -> None:
    """Ranks begin with one rank's values: `c_broadcast` and `c_sync_comm_stream` name the parameter too."""
    startup = fluid.Program()
    shared(startup)
    block = startup.global_block()
    w = block.var("w")
    block.append_op("c_broadcast", {"X": w}, {"Out": w}, {"ring_id": 0, "root": 0})
    block.append_op("c_sync_comm_stream", {"X": w}, {"Out": w}, {"ring_id": 0})
    shared(startup)
    assert [op.type for op in block.ops] == ["uniform_random", "c_broadcast", "c_sync_comm_stream"]


def test_two_initialisers_are_refused() -> None:
    startup = fluid.Program()
    shared(startup)
    block = startup.global_block()
    fluid.initializer.Constant(1.0)(block.var("w"), block)
    with pytest.raises(RuntimeError, match="param w is inited by multiple init ops"):
        shared(startup)
