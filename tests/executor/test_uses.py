"""Which steps use a memory, and which may change places."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from fluidlite.executor.plan.actions import Elementwise, WhileLoop
from fluidlite.executor.plan.steps import Step, shown
from fluidlite.executor.plan.uses import Footprint, MemoryUses
from fluidlite.executor.plan.values import Reshape, Storage, Value, ValueFactory

VALUES = ValueFactory()


def buffer() -> Value:
    return VALUES.make((4,), "float32", Storage.BUFFER)


def view_of(base: Value) -> Value:
    return VALUES.make((2, 2), "float32", Storage.VIEW, base=base, view=Reshape((2, 2)))


def added(out: Value, *operands: Value) -> Step:
    return Step(None, Elementwise("add", operands), (out,))


def test_positions_by_memory() -> None:
    a, b, c = buffer(), buffer(), buffer()
    view = view_of(b)
    param = VALUES.make((4,), "float32", Storage.PARAM, name="w")
    newer = replace(param, number=VALUES.number())
    loop = Step(None, WhileLoop(True), body=(added(c, view, a),))
    uses = MemoryUses([added(b, a, a), shown(None, view), loop, added(newer, param, b)])
    assert uses.touching[b] == [0, 1, 2, 3] and uses.of(b) == uses.of(view) == [0, 2, 3]
    assert uses.of(c) == [2] and uses.writing[c] == [2]
    assert uses.of(param) == uses.of(newer) == uses.writing[newer.memory] == [3]
    assert uses.change([a, c], 1, 2) and not uses.change([a, b], 1, 3)


@pytest.mark.parametrize("shares", list(itertools.product([False, True], repeat=2)))
def test_steps_that_may_change_places(shares: tuple[bool, bool]) -> None:
    """Both may read one memory; a write needs one of its own, however it is shown."""
    reads_written, writes_read = shares
    a, b, c, d = buffer(), buffer(), buffer(), buffer()
    first = added(c, a, b)
    second = added(a if writes_read else d, b, view_of(c) if reads_written else b)
    one, other = Footprint(first), Footprint(second)
    assert one.is_apart(other) is other.is_apart(one) is (not reads_written and not writes_read)
    assert not one.is_apart(Footprint(added(view_of(c), b)))
    both = Footprint()
    both.add(one)
    both.add(other)
    assert both.is_apart(one) is False
