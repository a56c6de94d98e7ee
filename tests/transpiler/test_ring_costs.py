"""The cost of what ranks say to each other: every ring counts with its own size, and what goes from one rank
to one other counts at all.
"""

from __future__ import annotations

from typing import Any

import pytest

import fluidlite as fluid
from fluidlite.transpiler.cost.facts import Sizes
from fluidlite.transpiler.cost.model import Load
from fluidlite.transpiler.cost.rings import collectives_of
from fluidlite.transpiler.parts.roles import Programs

BYTES = 8 * 4 * 4


def load_of(op: str, ring: int = 0, slots: tuple[str, str] = ("X", "Out"), **attrs: Any) -> Load:
    """The load of one op on 8 ranks, two of which are in ring 3."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        fluid.data("x", [8, 4])
        block = main.global_block()
        out = block.create_var(name="out", shape=[8, 4], dtype="float32")
        names = dict(zip(("inputs", "outputs"), ({slots[0]: ["x"]}, {slots[1]: [out.name]}), strict=True))
        given: dict[str, Any] = {name: slot for name, slot in names.items() if "" not in slot}
        block.append_op(type=op, **given, attrs={"ring_id": ring, **attrs})
        inner = startup.global_block()
        inner.create_var(name="id", persistable=True, type=fluid.core.VarDesc.VarType.RAW)
        about = {"nranks": 2, "rank": 0, "ring_id": 3}
        inner.append_op(type="c_comm_init", inputs={"X": ["id"]}, outputs={}, attrs=about)
    return collectives_of(Programs(main, startup), Sizes(batch=8), 8)


@pytest.mark.parametrize(
    "op, ring, count", [("c_allreduce_sum", 0, 8), ("c_allreduce_sum", 3, 2), ("c_broadcast", 3, 2)]
)
def test_rings_count_with_their_own_size(op: str, ring: int, count: int) -> None:
    factor = 1.0 if op == "c_broadcast" else 2 * (count - 1) / count
    assert load_of(op, ring).out == factor * BYTES


def test_sends_and_receives_count() -> None:
    form = {"out_shape": [8, 4], "dtype": 5}
    assert load_of("send_v2", slots=("X", ""), peer=1) == (BYTES, 0, 1)
    assert load_of("recv_v2", slots=("", "Out"), peer=1, **form) == (0, BYTES, 0)
    assert load_of("partial_send", slots=("X", ""), peer=1, num=4, id=0) == (BYTES / 4, 0, 1)
    assert load_of("partial_recv", slots=("", "Out"), peer=1, num=4, id=0, **form) == (0, BYTES / 4, 0)
