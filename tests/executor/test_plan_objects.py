"""The objects that plans refer to: each kind has the protocol, and says how it computes."""

from __future__ import annotations

import importlib
import inspect
import pathlib
from collections.abc import Iterator

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import executor, layers
from fluidlite.executor.compile.pipeline import compile_plan
from fluidlite.executor.plan.objects import BindContext, Fresh, OpCall, PlanObject
from fluidlite.executor.plan.plan import FeedSpec, Target
from fluidlite.executor.plan.sizes import SizeTable
from fluidlite.executor.run.calls import Absent

TARGETS = {
    "host": Target(timed=True, checked=True),
    "fast": Target(threads=2, loops="background"),
    "device": Target(on_host=False),
}
NAMES = ("bind", "explained", "kernel_of", "sizes")


@pytest.fixture(scope="module")
def kinds() -> set[type[PlanObject]]:
    """All classes of such objects, those of rooms that no program here needs too."""
    root = pathlib.Path(executor.__file__).parent
    for path in root.rglob("*.py"):
        if "objects import" in path.read_text(encoding="utf8"):
            importlib.import_module(
                f"fluidlite.executor.{'.'.join(path.relative_to(root).with_suffix('').parts)}"
            )
    return set(below(PlanObject))


def below(kind: type[PlanObject]) -> Iterator[type[PlanObject]]:
    for each in kind.__subclasses__():
        yield each
        yield from below(each)


def network() -> None:
    """Images, ids, a mask, a sorted row, and a loop that the interpreter runs."""
    x = fluid.data("x", [4, 3, 8, 8])
    ids = fluid.data("ids", [4, 1], dtype="int64")
    found = layers.pool2d(layers.conv2d(x, 4, 3, act="relu"), 2)
    rows = layers.dropout(layers.concat([layers.fc(found, 6), layers.embedding(ids, [9, 6])], 1), 0.5)
    ranked, _ = layers.argsort(layers.fc(rows, 256, act="tanh"))
    loss = layers.mean(layers.elementwise_add(layers.fc(ranked, 1), layers.fc(rows, 1)))
    going = layers.create_global_var([1], False, "bool", persistable=True)
    with layers.While(going).block():
        layers.less_than(loss, loss, cond=going)
    fluid.optimizer.Adam(0.1).minimize(loss)


def objects(target: Target) -> list[PlanObject]:
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup):
        network()
    fluid.Executor(fluid.CPUPlace()).run(startup, scope=scope)
    feeds = {"x": FeedSpec((4, 3, 8, 8), np.dtype("float32")), "ids": FeedSpec((4, 1), np.dtype("int64"))}
    block = main.global_block()
    return compile_plan(block, block.ops, feeds, [], scope, target).bound_objects()


def test_every_kind_is_bound_by_the_protocol(kinds: set[type[PlanObject]]) -> None:
    """Objects of plans are of kinds that have all of it; here is a program for each kind."""
    found = [thing for target in TARGETS.values() for thing in objects(target)]
    assert not [thing for thing in found if not isinstance(thing, PlanObject)]
    assert {type(thing) for thing in found} | {OpCall, Absent} == kinds, (
        "a kind that the network lacks, or a new one"
    )
    for thing in found:
        for name in NAMES:
            wanted = list(inspect.signature(getattr(PlanObject, name)).parameters)
            assert list(inspect.signature(getattr(type(thing), name)).parameters) == wanted, (thing, name)
        assert thing.sizes() is None and isinstance(thing.explained(), str)


def test_a_recipe_is_made_of_the_sizes_at_hand() -> None:
    (n,) = SizeTable([6]).inputs
    table = n.sizes
    recipe = Fresh(lambda module, shape: (module, shape), ((n * 2, 3),))
    values = table.values_for([5])
    assert recipe.sizes() is not None
    assert recipe.bind(BindContext("np", True, None, values, None, {})) == ("np", (10, 3))
