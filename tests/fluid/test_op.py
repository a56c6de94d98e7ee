"""Single ops on the variables of a scope."""

from __future__ import annotations

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.base.errors import EnforceNotMet
from fluidlite.op import OpDescCreationMethod, Operator, RecurrentOp, get_all_op_protos
from fluidlite.proto import framework_pb2


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


def test_what_an_op_has() -> None:
    op = Operator("scale", X="x", Out="o", scale=2.0)
    assert str(op) == "Op(scale), inputs:{ScaleTensor[], X[x]}, outputs:{Out[o]}."
    assert op.inputs() == {"ScaleTensor": [], "X": ["x"]}
    assert op.no_intermediate_outputs() == ["o"]
    assert Operator.get_op_input_names("mul") == ["X", "Y"]
    assert Operator.get_op_output_names("mul") == ["Out"]
    assert {"x_num_col_dims", "op_role", "op_device"} <= set(Operator.get_op_attr_names("mul"))
    info = Operator.get_op_info("sum")
    assert (info.name, info.inputs, info.outputs) == ("sum", [("X", True)], [("Out", False)])
    assert info.method(X=["a", "b"], Out="c").input_vars() == ["a", "b"]
    for wrong in ("zz", 1):
        with pytest.raises(ValueError, match="is not registered"):
            Operator(wrong, X="x")


def proto_of(op_type: str) -> framework_pb2.OpProto:
    (found,) = [proto for proto in get_all_op_protos() if proto.type == op_type]
    return found


def test_an_op_as_a_message() -> None:
    desc = OpDescCreationMethod(proto_of("mul"))(X="a", Y="b", Out="c", x_num_col_dims=2)
    wanted = framework_pb2.OpDesc(type="mul")
    for slots, names in ((wanted.inputs, {"X": ["a"], "Y": ["b"]}), (wanted.outputs, {"Out": ["c"]})):
        for slot, arguments in names.items():
            slots.add(parameter=slot, arguments=arguments)
    wanted.attrs.add(name="x_num_col_dims", type=framework_pb2.INT, i=2)
    assert desc == wanted
    made = fluid.core.Operator.create(desc.SerializeToString())
    assert (made.type(), made.input_vars(), made.output_vars()) == ("mul", ["a", "b"], ["c"])


def test_attributes_of_every_type() -> None:
    proto = framework_pb2.OpProto(type="t", comment="")
    given = {
        "i": (framework_pb2.INT, 3),
        "f": (framework_pb2.FLOAT, 0.5),
        "s": (framework_pb2.STRING, "text"),
        "b": (framework_pb2.BOOLEAN, True),
        "l": (framework_pb2.LONG, 2**40),
        "ints": (framework_pb2.INTS, np.array([1, 2])),
        "floats": (framework_pb2.FLOATS, [0.5]),
        "strings": (framework_pb2.STRINGS, ["a", "b"]),
        "bools": (framework_pb2.BOOLEANS, [True, False]),
        "longs": (framework_pb2.LONGS, [2**40]),
    }
    for name, (kind, _) in given.items():
        proto.attrs.add(name=name, type=kind, comment="")
    desc = OpDescCreationMethod(proto)(**{name: value for name, (_, value) in given.items()})
    for attr in desc.attrs:  # each is named as the field that holds its value
        _, value = given[attr.name]
        found = getattr(attr, attr.name)
        assert (found if len(attr.name) == 1 else list(found)) == (
            value.tolist() if attr.name == "ints" else value
        )
    proto.attrs.add(name="block", type=framework_pb2.BLOCK, comment="")
    with pytest.raises(NotImplementedError, match="A not supported attribute type"):
        OpDescCreationMethod(proto)(block=1)


def test_mistakes_in_messages() -> None:
    with pytest.raises(TypeError, match="should be OpProto"):
        OpDescCreationMethod(1)
    with pytest.raises(ValueError, match="Only keyword arguments"):
        OpDescCreationMethod(proto_of("mul"))("a")
    with pytest.raises(ValueError, match="Input X expects only one input, but 2 are given"):
        OpDescCreationMethod(proto_of("mul"))(X=["a", "b"], Y="c", Out="d")
    with pytest.raises(fluid.core.EnforceNotMet, match="'recurrent'"):
        RecurrentOp(X="a")


def test_steps_of_a_run_through_core() -> None:
    scope, tensor = fluid.core.Scope(), fluid.core.LoDTensor()
    tensor.set(np.arange(3.0), fluid.CPUPlace())
    fluid.core.set_feed_variable(scope, tensor, "feed", 1)
    assert np.array(fluid.core.get_fetch_variable(scope, "feed", 1)).tolist() == [0, 1, 2]
    with pytest.raises(fluid.core.EnforceNotMet, match="is not found in scope"):
        fluid.core.get_variable_tensor(scope, "zz")
    x = fluid.data("x", [2, 2])
    y = fluid.layers.fc(x, 1)
    fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(y))
    main = fluid.default_main_program().desc
    pruned, blocks = fluid.core.prune(main, set(), [[0, 0]])
    assert ([op.type() for op in ops_of(pruned)], blocks) == (["mul"], {0: 0})
    forward, blocks = fluid.core.prune_backward(main)
    assert ([op.type() for op in ops_of(forward)], blocks) == (["mul", "elementwise_add", "mean"], {0: 0})
    assert [int(state) for state in fluid.core.ProfilerState] == [0, 1, 2, 3]
    assert fluid.core.is_profiler_enabled() is False


def ops_of(desc: fluid.core.ProgramDesc) -> list[fluid.core.OpDesc]:
    return [desc.block(0).op(index) for index in range(desc.block(0).op_size())]


def test_a_rank_table_of_a_scope() -> None:
    rows = fluid.layers.data("rows", [1], lod_level=1)
    table = fluid.layers.control_flow.lod_rank_table(rows)
    table.persistable = True
    scope, exe = fluid.core.Scope(), fluid.Executor(fluid.CPUPlace())
    feed = fluid.create_lod_tensor(np.zeros((6, 1), "float32"), [[2, 3, 1]], fluid.CPUPlace())
    exe.run(scope=scope, feed={"rows": feed})
    assert scope.find_var(table.name).get_lod_rank_table().items() == [(1, 3), (0, 2), (2, 1)]
    assert scope.var("empty").get_lod_rank_table().items() == []


def test_slots_without_variables_have_names() -> None:
    op = (fluid.data("x", [2]) + 1).op
    assert op.input_names == op.desc.input_names() == ["ScaleTensor", "X"]
    assert op.input("ScaleTensor") == []
