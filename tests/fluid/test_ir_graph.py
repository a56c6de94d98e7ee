"""`framework.IrGraph` over `core.Graph`: nodes, links, order, and back to a program.

Numbers of nodes and the ops that control variables link are those of PaddlePaddle 1.8.5.
"""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from golden import harness

import fluidlite as fluid
from fluidlite import core
from fluidlite.errors import EnforceNotMet
from fluidlite.framework import IrGraph, IrOpNode, IrVarNode
from fluidlite.ir.program import Program


def trained() -> tuple[Program, Any]:
    """Two layers added up, one on top, and Adam."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        x, y = fluid.data("x", [None, 8]), fluid.data("y", [None, 1])
        hidden = fluid.layers.fc(x, 4, act="relu") + fluid.layers.fc(x, 4)
        loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), y))
        fluid.optimizer.Adam(0.1).minimize(loss)
    return main, loss


def rewritten() -> Program:
    """Names that are written again, with readers of each version, and a loop."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        x = fluid.data("x", [None, 8])
        fluid.data("unused", [None, 8])
        i = fluid.layers.fill_constant([1], "int64", 0)
        n = fluid.layers.fill_constant([1], "int64", 3)
        fluid.layers.increment(i, 1)
        fluid.layers.increment(i, 2)
        a, b = fluid.layers.scale(x, 2.0), fluid.layers.create_tensor("float32", name="b")
        fluid.layers.assign(a, b)
        fluid.layers.assign(x, b)
        fluid.layers.relu(b)
        fluid.layers.assign(a, b)
        condition = fluid.layers.less_than(i, n)
        with fluid.layers.While(condition).block():
            fluid.layers.assign(x + 1.0, b)
            fluid.layers.increment(i)
            fluid.layers.less_than(i, n, cond=condition)
    return main


def graph_of(program: Program, for_test: bool = False) -> IrGraph:
    return IrGraph(core.Graph(program.desc), for_test)


def types(program: Program) -> list[str]:
    return [op.type for op in program.global_block().ops]


def named(graph: IrGraph, name: str) -> Any:
    """The node of that name with the smallest number."""
    nodes = [*graph.all_op_nodes(), *graph.all_var_nodes()]
    return min((node for node in nodes if node.name() == name), key=lambda node: node.id())


def waits(graph: IrGraph) -> set[tuple[int, int]]:
    """The pairs of ops that control variables link."""
    controls = [node for node in graph.all_var_nodes() if node.is_ctrl_var()]
    return {(one.inputs[0].id(), one.outputs[0].id()) for one in controls}


def test_nodes() -> None:
    graph = graph_of(trained()[0])
    assert (len(graph.all_nodes()), len(graph.all_var_nodes()), len(graph.all_op_nodes())) == (126, 97, 29)
    assert len(graph.all_persistable_nodes()) == 61
    assert waits(graph) == {(4, 59), (0, 70), (12, 80), (9, 90), (20, 100), (17, 110)}
    adam = named(graph, "adam")
    assert [node.id() for node in adam.inputs] == [60, 61, 56, 62, 63, 64, 5, 120]
    assert [node.id() for node in adam.outputs] == [65, 66, 67, 68, 69]
    weight = named(graph, "fc_0.w_0")
    assert (weight.shape(), weight.persistable()) == ([8, 4], True)
    assert (weight.dtype(), weight.type()) == (core.VarDesc.VarType.FP32, core.VarDesc.VarType.LOD_TENSOR)
    assert (weight.is_var(), weight.is_op(), weight.node_type()) == (True, False, core.Node.Type.Variable)
    assert (graph.graph_num(), graph.has_circle(), graph.is_test()) == (1, False, False)


def test_later_writers_wait() -> None:
    graph = graph_of(rewritten())
    expected = {(17, 21), (13, 17), (15, 17), (11, 13), (6, 21), (4, 6), (0, 4), (19, 21)}
    assert waits(graph) == expected
    graph.safe_remove_nodes({node for node in graph.all_var_nodes() if node.is_ctrl_var()})
    assert waits(graph) == set()
    assert len(graph.all_nodes()) == 27
    again = graph_of(rewritten())
    again.resolve_hazard()  # writers wait a second time, readers do so already
    assert (waits(again), len(again.all_nodes())) == (expected, 42)


@pytest.mark.parametrize("name", harness.recorded_cases())
def test_programs_come_back(name: str) -> None:
    """The program of a graph that nobody edited is the one it was made from."""
    golden = harness.Golden(name)
    program = Program.parse_from_string(golden.program(0))
    back = graph_of(program).to_program()
    assert [str(op) for op in back.global_block().ops] == [str(op) for op in program.global_block().ops]
    assert set(back.global_block().vars) == set(program.global_block().vars)
    assert [len(block.ops) for block in back.blocks] == [len(block.ops) for block in program.blocks]
    assert not back.all_parameters()


def test_an_op_is_put_in_between() -> None:
    """An input is scaled on its way into one op, and the program computes with it."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        x = fluid.data("x", [2, 3])
        out = fluid.layers.square(x) + x
    graph = graph_of(main)
    square, source = named(graph, "square"), named(graph, "x")
    scaled = graph.create_var_node("x.scaled", source.type(), source.shape(), source.dtype())
    scale = graph.create_op_node("scale", {"scale": 3.0}, {"X": source}, {"Out": [scaled]})
    graph.link_to(source, scale)
    graph.link_to(scale, scaled)
    graph.update_input_link(source, scaled, square)
    assert square.input_arg_names() == ["x.scaled"]
    assert {node.name() for node in graph.build_adjacency_list()[square]} == {"scale"}
    program = graph.to_program()
    assert types(program) == ["scale", "square", "elementwise_add"]
    value = np.arange(6, dtype="float32").reshape(2, 3)
    for built in (program, fluid.CompiledProgram(graph.graph)):
        (found,) = fluid.Executor().run(built, feed={"x": value}, fetch_list=[out.name])
        np.testing.assert_allclose(found, (3 * value) ** 2 + value)
    assert types(main) == ["square", "elementwise_add"]


def test_outputs_are_moved_and_removed() -> None:
    graph = graph_of(rewritten())
    relu = named(graph, "relu")
    target = graph.create_var_node_from_desc(relu.outputs[0].var())
    old = relu.outputs[0]
    graph.update_output_link(old, target, relu)
    assert [node.id() for node in relu.outputs if not node.is_ctrl_var()] == [target.id()]
    graph.safe_remove_nodes(old)
    assert graph.graph.retrieve_node(old.id()) is None
    with pytest.raises(AssertionError, match=r"'relu_0.tmp_0' must be in the graph"):
        graph.link_to(relu, old)
    with pytest.raises(EnforceNotMet, match="not in this graph"):
        graph.safe_remove_nodes(old)


def test_ops_are_edited() -> None:
    graph = graph_of(rewritten())
    scale = named(graph, "scale")
    scale.set_attr("bias", 2.0)
    scale.rename_input("x", "z")
    scale.rename_output("scale_0.tmp_0", "w")
    assert scale.op().attr("bias") == 2.0
    assert (scale.input("X"), scale.output("Out"), scale.output_arg_names()) == (["z"], ["w"], ["w"])
    scale.set_type("assign")
    assert scale.name() == "assign"
    scale.inputs[0].set_shape([3, 4])
    assert scale.inputs[0].shape() == [3, 4]
    with pytest.raises(EnforceNotMet, match="is an op and has no variable"):
        scale.var()
    with pytest.raises(EnforceNotMet, match="is a variable and has no op"):
        scale.inputs[0].op()
    with pytest.raises(AssertionError, match="Cannot find the target node"):
        graph._find_node_by_name(scale.inputs, "nothing")
    for wrapper, node, what in ((IrOpNode, scale.inputs[0], "operator"), (IrVarNode, scale, "variable")):
        with pytest.raises(AssertionError, match=f"it must be a {what} node"):
            wrapper(node.node)


def test_links_are_cut_by_hand() -> None:
    graph = graph_of(rewritten())
    scale, source = named(graph, "scale"), named(graph, "x")
    scale.remove_input(source)
    assert scale.inputs == []
    scale.append_input(source)
    scale.remove_input_by_id(source.id())
    assert scale.inputs == []
    source.remove_output_by_id(scale.id())
    assert scale not in source.outputs
    source.append_output(scale)
    source.remove_output(scale)
    source.clear_outputs()
    scale.clear_inputs()
    assert (source.outputs, scale.inputs) == ([], [])


def test_ops_in_a_circle() -> None:
    graph = graph_of(rewritten())
    scale, last = named(graph, "scale"), named(graph, "while")
    assert not graph.has_circle()
    control = graph.create_control_dep_var()
    graph.link_to(last, control)
    graph.link_to(control, scale)
    assert graph.has_circle()
    with pytest.raises(EnforceNotMet, match="ops depend on each other"):
        graph.to_program()


def test_copies() -> None:
    graph = graph_of(trained()[0], for_test=True)
    copy = graph.clone()
    named(copy, "relu").set_type("tanh")
    copy.safe_remove_nodes(named(copy, "mean"))
    assert "relu" in types(graph.to_program())
    assert copy.is_test()
    assert types(copy.to_program()) == [
        "tanh" if one == "relu" else one for one in types(graph.to_program()) if one != "mean"
    ]


def test_attributes() -> None:
    graph = core.Graph(rewritten().desc)
    graph.set("depth", 3)
    assert (graph.has("depth"), graph.get_int("depth")) == (True, 3)
    with pytest.raises(EnforceNotMet, match="expected: float, received: int"):
        graph.get_float("depth")
    graph.erase("depth")
    with pytest.raises(EnforceNotMet, match="depth attribute not registered"):
        graph.get_int("depth")
    for what in (3, None):
        with pytest.raises(AssertionError, match=r"graph must be the instance of core.Graph"):
            IrGraph(what)


def test_drawing(tmp_path: pathlib.Path) -> None:
    graph = graph_of(rewritten())
    graph.draw(str(tmp_path / "pictures"), "loop", marked_nodes={named(graph, "relu")})
    text = (tmp_path / "pictures" / "loop.dot").read_text()
    assert text.count("fillcolor") == 1
    assert text.count("->") == sum(len(node.outputs) for node in graph.all_nodes())
    assert "__control_var" not in text
