"""An op is one block in one family: no two families declare it, and a look-up imports no other."""

from __future__ import annotations

import pytest

from fluidlite.base import registry


def test_one_family_declares_an_op() -> None:
    # known_types imports every family, and declaring an op a second time is an error
    forward = [op_type for op_type in registry.known_types() if "_grad" not in op_type]
    assert len(forward) > 300
    found = {op_type: registry.candidates(op_type) for op_type in forward}
    assert not {op_type: families for op_type, families in found.items() if len(families) != 1}


def test_an_op_that_is_declared_twice_is_refused() -> None:
    registry.get("mul")  # is loaded when it is asked for
    with pytest.raises(ValueError, match="op 'mul' is declared twice"):
        registry.Op("mul", "X -> Out")
