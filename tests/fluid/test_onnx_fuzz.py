"""Random networks and calls as files of ONNX: onnxruntime computes the same, or the export is refused; and
the program of a file that is read back computes the same as well.
"""

from __future__ import annotations

import collections
from typing import Any

import onnx
import pytest
from beside.onnx_runs import Verdict, cases, verdict

import fluidlite as fluid
from fluidlite.errors import ArgumentError, UnsupportedError
from fluidlite.saving.onnx import graph
from fluidlite.saving.onnx.export import onnx_model

WRONG = ("crashed", "differs", "invalid")
OPSETS = (17, 13, 20, 15, 18, 22)


def counts_of(kind: str, seed: int, count: int) -> collections.Counter[str]:
    """How many cases went which way; none silently wrong."""
    found: collections.Counter[str] = collections.Counter()
    for case in cases(kind, seed, count, []):
        opset = OPSETS[case["seed"] % len(OPSETS)]
        made: Verdict = verdict(case, kind == "forward", opset)
        assert made.kind not in WRONG, f"{kind} {case['seed']} {case['function']}, opset {opset}: {made}"
        # of a file that fails as it runs, one sequence was asked for and several were fed
        assert kind != "forward" or made.kind != "failed", f"{case['seed']}: {made}"
        assert not made.back.startswith("differs"), f"{kind} {case['seed']} {case['function']}: {made.back}"
        found[made.kind] += 1
        found["back"] += made.kind == "agrees" and not made.back
    return found


def test_networks() -> None:
    """With three sizes of the batch each."""
    found = counts_of("forward", 1, 60)
    assert found["agrees"] >= 54 and found["back"] == found["agrees"]


@pytest.mark.parametrize("kind", ["functions18", "functions26"])
def test_functions(kind: str) -> None:
    found = counts_of(kind, 1, 150)
    assert found["agrees"] >= 75 and found["back"] >= found["agrees"] - 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, count, least", [("forward", 1000, 900), ("functions18", 2500, 1500), ("functions26", 2500, 1250)]
)
def test_many(kind: str, count: int, least: int) -> None:
    found = counts_of(kind, 10_000, count)
    assert found["agrees"] >= least and found["back"] >= 0.99 * found["agrees"]


# ----------------------------------------------------------------------- the mechanism
def scaled(**attrs: Any) -> tuple[fluid.Program, str]:
    """A program with one op, whose attributes and slots a rule may leave unread."""
    x = fluid.data("x", [2, 3])
    factor = fluid.layers.fill_constant([1], "float32", 2.0)
    block = fluid.default_main_program().global_block()
    out = block.create_var(name="out")
    inputs = {"X": [x], **({"ScaleTensor": [factor]} if attrs.pop("tensor", False) else {})}
    block.append_op(type="scale", inputs=inputs, outputs={"Out": [out]}, attrs=attrs)
    return fluid.default_main_program(), out.name


@pytest.mark.parametrize(
    "attrs, said",
    [
        (
            {"bias": 1.5},
            r"'scale': its attribute 'bias' is 1.5, and the rule knows 0.0 alone \(built at .*:\d+",
        ),
        ({"tensor": True}, r"'scale': the rule does not read its input slot ScaleTensor, which holds \["),
    ],
)
def test_what_a_rule_leaves_unread_is_refused(
    attrs: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(graph.RULES, "scale", lambda op: op.put(op.x()))
    program, name = scaled(**attrs)
    with pytest.raises(UnsupportedError, match=said):
        onnx_model(program, ["x"], [name])


def test_an_output_that_no_rule_gives_is_refused() -> None:
    x = fluid.data("x", [2, 3])
    block = fluid.default_main_program().global_block()
    gates, cells, hidden = (block.create_var(name=name) for name in ("gates", "cells", "hidden"))
    weight, bias = (fluid.layers.create_parameter(shape, "float32") for shape in ([3, 12], [1, 12]))
    entry = fluid.layers.fc(x, 12)
    block.append_op(
        type="lstm",
        inputs={"Input": [entry], "Weight": [weight], "Bias": [bias]},
        outputs={"Hidden": [hidden], "Cell": [cells], "BatchGate": [gates]},
        attrs={"use_peepholes": False},
    )
    fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
    assert onnx_model(fluid.default_main_program(), ["x"], ["hidden"])
    with pytest.raises(UnsupportedError, match="no ONNX for 'cells': nothing that is exported computes it"):
        onnx_model(fluid.default_main_program(), ["x"], ["cells"])


def test_constants_are_those_that_nodes_read() -> None:
    """Neither parameters of what is not asked for, nor what rules write beside it."""
    x = fluid.data("x", [None, 4])
    y = fluid.layers.fc(x, 3)
    fluid.layers.layer_norm(fluid.layers.fc(y, 5))
    fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
    model = onnx.load_from_string(onnx_model(fluid.default_main_program(), ["x"], [y.name]))
    read = {name for node in model.graph.node for name in node.input}
    assert {value.name for value in model.graph.initializer} <= read
    assert len(model.graph.initializer) == 2


def test_shapes_and_opsets() -> None:
    x = fluid.data("x", [None, 3, None, None])
    y = fluid.layers.adaptive_pool2d(x, [3, 2], "avg")
    program = fluid.default_main_program()
    with pytest.raises(UnsupportedError, match="windows that depend on the size of the image"):
        onnx_model(program, ["x"], [y.name])
    data = onnx_model(program, ["x"], [y.name], shapes={"x": [1, 3, 7, 5]}, opset=13)
    model = onnx.load_from_string(data)
    assert [size.dim_value for size in model.graph.output[0].type.tensor_type.shape.dim] == [1, 3, 3, 2]
    assert program.global_block().var("x").shape == (-1, 3, -1, -1)
    for wrong in ({"opset": 12}, {"shapes": {"z": [1]}}, {"shapes": {"x": [1, 4, 7, 5]}}):
        with pytest.raises(ArgumentError):
            onnx_model(program, ["x"], [y.name], **wrong)
