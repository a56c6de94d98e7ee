"""Generators of random arguments: every name of fluid's doors has one, or a reason why not."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from ops.draws.left_out import LEFT_OUT

import fluidlite as fluid
from beside.draw import Draw, generators, make_case
from beside.language import Case, statements
from beside.variations import apart, vary

DOORS = "layers nets contrib.layers input optimizer clip regularizer initializer"


def names_of(door: str) -> list[str]:
    module = fluid
    for part in door.split("."):
        module = getattr(module, part)
    return [f"fluid.{door}.{name}" for name in module.__all__]


@pytest.mark.parametrize("door", DOORS.split())
def test_every_name_of_a_door_has_a_generator_or_a_reason(door: str) -> None:
    known = generators("18")
    lacking = [name for name in names_of(door) if name not in known and name not in LEFT_OUT]
    assert not lacking


def test_reasons_are_for_names_without_a_generator() -> None:
    names = {name for door in DOORS.split() for name in names_of(door)}
    assert not [name for name in LEFT_OUT if name in generators("18") or name not in names]


@pytest.mark.parametrize("name", generators("18"))
def test_a_seed_makes_one_case_that_survives_json(name: str) -> None:
    generate = generators("18")[name]
    for seed in range(3):
        twice = []
        for _ in range(2):
            draw = Draw(random.Random(f"{name} {seed}"), "18")
            generate(draw, name)
            twice.append({"feeds": draw.feeds, "calls": draw.calls})
        assert twice[0] == twice[1]
        assert json.loads(json.dumps(twice[0])) == twice[0]
        assert list(statements(twice[1]["calls"]))


def test_a_seed_makes_one_case_with_its_variations() -> None:
    for seed in range(20):
        one, two = (vary(make_case("18", seed), random.Random(seed)) for _ in range(2))
        assert one == two
        assert json.loads(json.dumps(one)) == one


def test_places_of_one_input_apart() -> None:
    """An input for each place of a call, and what stands in front of it for each of them."""

    def var(name: str) -> Case:
        return {"$": "var", "name": name}

    def call(to: str, path: str, *args: Any) -> Case:
        return {"to": to, "call": path, "args": list(args), "kwargs": {}}

    feed = {"shape": [1], "dtype": "float32", "values": [1.0], "shared": True}
    step = [call("word", "rnn.step_input", var("x")), call("y", "f", var("word"), var("z"), var("word"))]
    calls = [call("front", "square", var("x")), {"with": "rnn.step", "calls": step}, call("u", "g", var("x"))]
    found = apart({"feeds": {"x": feed, "z": {**feed, "shared": False}}, "wrt": ["x"], "calls": calls})
    again = call("word_1", "rnn.step_input", var("x_1"))
    parted = [step[0], again, call("y", "f", var("word"), var("z"), var("word_1"))]
    front = call("front_1", "square", var("x_1"))
    assert found["calls"] == [calls[0], front, {"with": "rnn.step", "calls": parted}, calls[2]]
    assert found["wrt"] == ["x", "x_1"] and set(found["feeds"]) == {"x", "z", "x_1"}
    assert not any("shared" in one for one in found["feeds"].values())
