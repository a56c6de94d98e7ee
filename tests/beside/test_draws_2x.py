"""Every name of the 2.x door draws random arguments, or says why it does not."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

from beside.draw import generators, make_case
from beside.language import Case

CASES = 3


def names() -> list[str]:
    """All that PaddlePaddle 2.6.2 has, but for what Python itself gives a Variable."""
    common = importlib.import_module("ops.draws.common_2x")
    known: dict[str, list[str]] = common.names_2x()
    return [
        f"{module}.{name}"
        for module, found in known.items()
        for name in found
        if not (module == "paddle.Tensor" and name.startswith("_") and name not in OPERATORS)
    ]


OPERATORS = [
    "__add__",
    "__radd__",
    "__sub__",
    "__rsub__",
    "__mul__",
    "__rmul__",
    "__truediv__",
    "__rtruediv__",
    "__floordiv__",
    "__mod__",
    "__pow__",
    "__rpow__",
    "__matmul__",
    "__and__",
    "__or__",
    "__xor__",
    "__invert__",
    "__neg__",
    "__getitem__",
    "__setitem__",
    "__div__",
    "__rdiv__",
]


def test_every_name_has_a_generator_or_a_reason() -> None:
    drawn, left = set(generators("26")), importlib.import_module("ops.draws.left_out_2x").left_out()
    assert not [name for name in names() if name not in drawn and name not in left]
    assert not drawn & set(left)
    assert not set(left) - set(names())


@pytest.mark.parametrize("seed", range(CASES))
def test_generators_draw_plain_data(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Each makes a case that JSON keeps as it is."""
    known = generators("26")
    for name, generator in known.items():
        monkeypatch.setattr("beside.draw.generators", lambda door, name=name, made=generator: {name: made})
        case = make_case("26", seed)
        assert case["function"] == name
        assert json.loads(json.dumps(case)) == case
        assert _calls(case["calls"])


def _calls(calls: Any) -> list[Case]:
    return [item for item in calls if "call" in item or "with" in item]
