"""Names, labels and call stacks from anybody: generated source means the same with hostile as with harmless
ones, and what is drawn of a program has the same structure.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import os
import random
from typing import Any, NamedTuple

import numpy as np
import pytest
from hostile_text import BYTES, HOSTILE, RAN, described, renamings, respelled, shuffled, string_fields

import fluidlite as fluid
from fluidlite.errors import FluidError
from fluidlite.executor.plan import plan
from fluidlite.executor.plan.verify import PlanError
from fluidlite.executor.run import calls

ROUNDS = int(os.environ.get("HOSTILE_ROUNDS", "1"))
_TRIED = 8  # strings of each field in a round
FEED = np.linspace(-1, 1, 8, dtype="float32").reshape(2, 4)
HARMLESS = [f"n{number}" for number in range(len(HOSTILE))]


class Model(NamedTuple):
    """A program, the one that initialises it, and what to feed and fetch."""

    main: fluid.Program
    startup: fluid.Program
    fed: str
    fetched: list[str]

    def run(self) -> list[np.ndarray]:
        """Two steps from the beginning."""
        with fluid.scope_guard(fluid.Scope()):
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(self.startup)
            runs = [exe.run(self.main, feed={self.fed: FEED}, fetch_list=self.fetched) for _ in range(2)]
        return runs[-1]


def _network(loops: bool) -> list[Any]:
    """Steps of a training, a loop, if there may be one, and a branch."""
    layers = fluid.layers
    x = fluid.data("x", [2, 4])
    hidden = layers.fc(layers.fc(x, 3, act="relu"), 3, act="softmax")
    loss = layers.mean(hidden * hidden)
    zero = layers.fill_constant([1], "int64", 0)
    three = layers.fill_constant([1], "int64", 3)
    total = loss
    if loops:
        _, total = layers.while_loop(
            lambda i, v: layers.less_than(i, three), lambda i, v: [i + 1, v * 2.0], [zero, loss]
        )
    chosen = layers.cond(layers.less_than(zero, three), lambda: total + 1.0, lambda: total - 1.0)
    fluid.optimizer.Adam(0.1).minimize(loss)
    return [loss, chosen, hidden]


def model(loops: bool = True) -> Model:
    """The network under the names that layers give; a loop whose counter has another name never ends."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 7
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        return Model(main, startup, "x", [var.name for var in _network(loops)])


def spelled(texts: list[str]) -> Model:
    """The network with such names and labels."""
    plain = model()
    names = renamings((plain.main, plain.startup), texts)
    labels = itertools.cycle(texts)
    main, startup = (respelled(each, names, labels) for each in (plain.main, plain.startup))
    return Model(main, startup, names["x"], [names[name] for name in plain.fetched])


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that are compiled during a test."""
    found: list[str] = []

    def noted(source: str, *arguments: Any) -> Any:
        found.append(source)
        return compile(source, *arguments)

    monkeypatch.setattr(plan, "compile", noted, raising=False)
    monkeypatch.setattr(calls, "compile", noted, raising=False)
    calls._compiled.cache_clear()
    return found


class _Numbered(ast.NodeTransformer):
    """Identifiers by the order in which they come; strings all alike."""

    def __init__(self) -> None:
        self.numbers: dict[str, str] = {}

    def number(self, name: str) -> str:
        return self.numbers.setdefault(name, f"name{len(self.numbers)}")

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.number(node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self.number(node.arg))

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant("") if isinstance(node.value, str) else node


def _tree(source: str) -> str:
    return ast.dump(_Numbered().visit(ast.parse(source)))


@pytest.mark.parametrize("seed", range(2 * ROUNDS))
def test_source_means_the_same(seed: int, compiled: list[str]) -> None:
    expected = spelled(HARMLESS).run()
    plain = list(map(_tree, compiled))
    compiled.clear()
    calls._compiled.cache_clear()
    found = spelled(shuffled(HOSTILE, seed)).run()
    assert not RAN
    assert list(map(_tree, compiled)) == plain
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def _fields() -> list[tuple[str, str]]:
    """Message type and field of all strings in a program."""
    desc = described(model(loops=False).main)
    desc.op_version_map.pair.add(op_name=b"mul").op_version.version = 1
    return sorted({(owner.DESCRIPTOR.name, field.name) for owner, field in string_fields(desc)})


def _with_one_changed(where: tuple[str, str], value: bytes, seed: int) -> bytes:
    """The network's message with one string of a field changed."""
    desc = described(model(loops=False).main)
    desc.op_version_map.pair.add(op_name=b"mul").op_version.version = 1
    found = [
        (owner, field) for owner, field in string_fields(desc) if (owner.DESCRIPTOR.name, field.name) == where
    ]
    owner, field = random.Random(seed).choice(found)
    held = getattr(owner, field.name)
    if isinstance(held, bytes):
        setattr(owner, field.name, value)
    else:
        held[0] = value
    return bytes(desc.SerializeToString())


@pytest.mark.filterwarnings("ignore::fluidlite.errors.FluidWarning")
@pytest.mark.filterwarnings("ignore:The variable x is not found in program:UserWarning")
@pytest.mark.parametrize("where", _fields(), ids="-".join)
def test_a_string_of_each_field(where: tuple[str, str], compiled: list[str]) -> None:
    """Whatever one string is, the program runs or is refused by an error of ours."""
    plain = model(loops=False)
    values = [text.encode() for text in HOSTILE] + BYTES + [b""]
    random.Random(str(where)).shuffle(values)
    for number in range(_TRIED * ROUNDS):
        value = values[number % len(values)]
        data = _with_one_changed(where, value, number)
        # a PlanError is an error of ours as well: shapes that contradict each other, with op and line
        with contextlib.suppress(FluidError, PlanError, ValueError, KeyError):
            plain._replace(main=fluid.Program.parse_from_string(data)).run()
        assert not RAN, (where, value)
