"""Single ops on the variables of a scope."""

from __future__ import annotations

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.base.errors import EnforceNotMet
from fluidlite.op import Operator


def test_an_op_runs_on_a_scope() -> None:
    scope = fluid.core.Scope()
    for name in ("a", "b"):
        scope.var(name).get_tensor().set(np.full((2, 2), 3, "float32"), fluid.CPUPlace())
    op = Operator("sum", X=["a", "b"], Out="c")
    assert (op.type(), op.inputs(), op.outputs(), op.input_vars(), op.output_vars()) == (
        "sum",
        {"X": ["a", "b"]},
        {"Out": ["c"]},
        ["a", "b"],
        ["c"],
    )
    op.run(scope, fluid.CPUPlace())
    assert np.array(scope.find_var("c").get_tensor()).tolist() == [[6, 6], [6, 6]]
    Operator(type="scale", X="c", Out="c", scale=0.5).run(scope, fluid.CPUPlace())
    assert np.array(scope.find_var("c").get_tensor()).tolist() == [[3, 3], [3, 3]]


def test_sparse_gradients() -> None:
    scope = fluid.core.Scope()
    rows = scope.var("grad").get_selected_rows()
    rows.set_height(5)
    rows.set_rows([1, 1, 4])
    rows.get_tensor().set(np.ones((3, 2), "float32"), fluid.CPUPlace())
    scope.var("param").get_tensor().set(np.zeros((5, 2), "float32"), fluid.CPUPlace())
    scope.var("rate").get_tensor().set(np.full(1, 0.5, "float32"), fluid.CPUPlace())
    Operator("sgd", Param="param", Grad="grad", LearningRate="rate", ParamOut="param").run(
        scope, fluid.CPUPlace()
    )
    assert np.array(scope.find_var("param").get_tensor())[:, 0].tolist() == [0, -1, 0, 0, -0.5]


def test_the_values_that_there_are_decide_shapes_and_types() -> None:
    scope = fluid.core.Scope()
    scope.var("x").get_tensor().set(np.ones((2, 3), "float16"), fluid.CPUPlace())
    Operator("erf", X="x", Out="y").run(scope, fluid.CPUPlace())
    assert np.array(scope.find_var("y").get_tensor()).dtype == np.float16
    with pytest.raises(EnforceNotMet, match=r"'increment'.*\[2, 3\]"):
        Operator("increment", X="x", Out="y").run(scope, fluid.CPUPlace())


def test_what_is_known_of_ops() -> None:
    assert "mul" in Operator.types() and Operator.get_op_input_names("mul") == ["X", "Y"]
    assert Operator.get_op_output_names("mul") == ["Out"] and "x_num_col_dims" in Operator.get_op_attr_names(
        "mul"
    )
    with pytest.raises(ValueError, match="The operator: nosuch is not registered"):
        Operator("nosuch")
    with pytest.raises(ValueError, match="keyword arguments"):
        Operator()
    with pytest.raises(ValueError, match="Input X expects only one input, but 2 are given"):
        Operator("mul", X=["a", "b"], Y="b", Out="c")
