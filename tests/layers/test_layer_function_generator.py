"""Layers made from declarations of ops: ops, names and errors as 1.8.5 has them."""

from __future__ import annotations

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.layers import layer_function_generator as generator

Variable = fluid.framework.Variable


@pytest.fixture(autouse=True)
def _program():
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        yield


def _operands() -> tuple[Variable, Variable]:
    x = fluid.layers.data("x", [3])
    return x, fluid.layers.data("w", [3, 4], append_batch_size=False)


def _last() -> tuple[str, dict[str, list[str]], dict[str, list[str]]]:
    op = fluid.default_main_program().global_block().ops[-1]
    return (
        op.type,
        {slot: op.input(slot) for slot in op.input_names if op.input(slot)},
        {slot: op.output(slot) for slot in op.output_names},
    )


def test_inputs_come_in_order_or_by_name() -> None:
    x, w = _operands()
    mul, add = generator.generate_layer_fn("mul"), generator.generate_layer_fn("elementwise_add")
    assert mul(x, w).shape == (-1, 4) and mul(y=w, x=x).name == "mul_1.tmp_0"
    add(x, y=x, axis=1)
    assert _last() == ("elementwise_add", {"X": ["x"], "Y": ["x"]}, {"Out": ["elementwise_add_0.tmp_0"]})
    assert fluid.default_main_program().global_block().ops[-1].attr("axis") == 1
    total = generator.generate_layer_fn("sum")
    total(x=[x, x])
    assert _last()[1] == {"X": ["x", "x"]}
    total(x, x)  # a slot takes one positional argument, and the rest is left alone
    assert _last()[1] == {"X": ["x"]}


def test_outputs() -> None:
    x, w = _operands()
    mul, target = generator.generate_layer_fn("mul"), fluid.layers.zeros([3, 4], "float32")
    assert mul(x, w, out=target) is target and mul(x, w, out=[target]) is target
    assert mul(x, w, out=None).name == "mul_2.tmp_0"
    assert mul(x, w, act="relu", name="hi").name == "hi.tmp_1"
    assert _last() == ("relu", {"X": ["hi.tmp_0"]}, {"Out": ["hi.tmp_1"]})
    generator.generate_layer_fn("dropout")(x, dropout_prob=0.3)
    assert _last()[2] == {"Out": ["dropout_0.tmp_0"], "Mask": ["dropout_0.tmp_1"]}
    generator.generate_layer_fn("softmax_with_cross_entropy")(x, x, soft_label=True)
    names = [f"softmax_with_cross_entropy_0.tmp_{number}" for number in range(2)]
    assert _last()[2] == {"Loss": names[:1], "Softmax": names[1:]}
    constant = generator.generate_layer_fn("fill_constant")(shape=[2], value=1.0)
    assert constant.shape == (2,) and constant.dtype == fluid.core.VarDesc.VarType.FP32


@pytest.mark.parametrize(
    "op_type, arguments, words",
    [
        ("nosuch", (), "nosuch"),
        ("top_k", (), "Only one non intermediate output"),
        ("split", (), "Only non duplicable"),
        ("mul", (0, 1), "input of mul must be variable"),
        ("sum", ([0],), "input of sum must be variable"),
    ],
)
def test_refused(op_type: str, arguments: tuple[object, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        generator.generate_layer_fn(op_type)(*arguments)


def test_one_dtype() -> None:
    x, _ = _operands()
    wide = fluid.layers.data("wide", [3], dtype="float64")
    with pytest.raises(ValueError, match="operator elementwise_add must input same dtype"):
        generator.generate_layer_fn("elementwise_add")(x, wide)


def test_activations_run() -> None:
    x, _ = _operands()
    whole = fluid.layers.data("whole", [3], dtype="int64")
    tanh, absolute = (generator.generate_activation_fn(name) for name in ("tanh", "abs"))
    outs = [tanh(x, name="nm"), absolute(whole)]
    assert outs[0].name == "nm.tmp_0" and tanh.__name__ == "tanh"
    with pytest.raises(TypeError, match="tanh"):
        tanh(whole)
    with pytest.raises(TypeError, match="tanh"):
        tanh(3)
    feed = {"x": np.array([[0.5, -1, 2]], "float32"), "whole": np.array([[1, -2, 3]])}
    got = fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=outs)
    np.testing.assert_allclose(got[0], np.tanh(feed["x"]), rtol=1e-6)
    np.testing.assert_array_equal(got[1], [[1, 2, 3]])


def test_documentation() -> None:
    assert generator._convert_("XNumColDims") == "x_num_col_dims" and generator._convert_("ROIs") == "ro_is"
    assert generator.escape_math("a $$b$$ $c$ !!d!!") == "a $$b$$ :math:`c` $$d$$"
    text = generator._generate_doc_string_(
        fluid.framework.OpProtoHolder.instance().get_op_proto("clip"), ["more: line"], ["max"]
    )
    names = [line.split(":")[0].strip() for line in text.split("Args:")[1].split("Returns:")[0].splitlines()]
    assert [name for name in names if name] == ["x", "min", "max", "min (FLOAT)", "more"]

    def relu() -> None:
        """${comment} ${x_type}, $$5."""

    comment = fluid.framework.OpProtoHolder.instance().get_op_proto("relu").comment
    assert generator.templatedoc()(relu).__doc__ == f"{comment} Variable, $5."
    assert str(generator.autodoc("the end")(relu).__doc__).endswith("the end")

    def other() -> None:
        """${nosuch}"""

    with pytest.raises(KeyError, match="nosuch"):
        generator.templatedoc("relu")(other)


def test_deprecated_functions_warn() -> None:
    with pytest.warns(DeprecationWarning, match="double"):
        assert generator.deprecated(_double)(2) == 4


def _double(number: int) -> int:
    return 2 * number
