"""ONNX files as programs: what the files compute, or an error that names the node."""

from __future__ import annotations

import collections
import os
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from beside.onnx_nodes import feed_of, node_cases, outcome
from beside.onnx_runs import compare, session_of
from onnx import TensorProto, helper, numpy_helper

import fluidlite as fluid
from fluidlite import paddle
from fluidlite.cli.models import SavedModel, as_saved
from fluidlite.errors import FormatError, KernelError, MissingExtraError, MissingFileError, UnsupportedError
from fluidlite.saving.converting import write_model
from fluidlite.saving.onnx import graph

RANDOM = np.random.RandomState(0)
FLOAT = TensorProto.FLOAT
# the largest of nothing is -inf in ONNX, and an error in a program
OF_NOTHING = ("max_empty_set", "min_empty_set", "sum_exp_empty_set")


def file_of(
    nodes: list[Any], inputs: dict[str, Any], outputs: list[str], opset: int = 17, **values: Any
) -> Any:
    """The model of these nodes: inputs by shape, or as an array's; `values` are constants."""
    given = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()]
    made = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
    constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()]
    whole = helper.make_graph(nodes, "g", given, made, constants)
    return helper.make_model(whole, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def written(model: Any) -> str:
    """The file of a model, in the folder of the test."""
    pathlib.Path("model.onnx").write_bytes(model.SerializeToString())
    return "model.onnx"


@pytest.fixture(autouse=True)
def _folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(path: str, **feed: Any) -> list[Any]:
    """The results of a file here."""
    with fluid.scope_guard(fluid.Scope()):
        program, _, fetches = fluid.io.load_onnx(path)
        return fluid.Executor(fluid.CPUPlace()).run(program, feed=feed, fetch_list=fetches)


# ------------------------------------------------------------------------------------------------ many files
@pytest.mark.slow
def test_nodes() -> None:
    """The node tests of the package `onnx`, which it takes a minute to collect."""
    found: collections.Counter[str] = collections.Counter()
    for case in node_cases():
        try:
            made = outcome(case)
        except KernelError:
            assert case.name.endswith(OF_NOTHING), case.name
            continue
        assert not made.startswith("differs"), f"{case.name}: {made}"
        found[made.partition(":")[0] or "right"] += 1
    assert found["right"] >= 1000


@pytest.mark.slow
def test_saved_files_compute_the_same() -> None:
    """A program that was read is written as a model of 2.x, and read again."""
    folder = "saved"
    exe = fluid.Executor(fluid.CPUPlace())
    number = 0
    for case in node_cases()[::25]:
        path = written(case.model)
        try:
            with fluid.scope_guard(fluid.Scope()):
                program, feeds, fetches = fluid.io.load_onnx(path)
                block = program.global_block()
                model = SavedModel(program, tuple(map(block.var, feeds)), tuple(fetches))
                feed = feed_of(case)
                before = exe.run(program, feed=feed, fetch_list=fetches)
                write_model(as_saved(model), f"{folder}/inference", "2.x")
        except UnsupportedError:
            continue
        with fluid.scope_guard(fluid.Scope()):
            again, names, results = paddle.static.load_inference_model(f"{folder}/inference", exe)
            assert [var.name for var in results] == [var.name for var in fetches]
            after = exe.run(again, feed={name: feed[name] for name in names}, fetch_list=results)
        assert not any(compare(*pair) for pair in zip(before, after, strict=True)), case.name
        number += 1
    assert number >= 25


# ------------------------------------------------------------------------------------------------ graphs
def test_shapes_that_are_computed() -> None:
    """Sizes go through nodes: what is known of them is known of the program."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"]),
        helper.make_node("Unsqueeze", ["batch", "axis"], ["row"]),
        helper.make_node("Concat", ["row", "heads"], ["sizes"], axis=0),
        helper.make_node("Reshape", ["x", "sizes"], ["apart"]),
        helper.make_node("Transpose", ["apart"], ["y"], perm=[0, 2, 1]),
    ]
    constants = {"zero": np.int64(0), "axis": np.array([0]), "heads": np.array([3, 4])}
    path = written(file_of(nodes, {"x": ["n", 12]}, ["y"], **constants))
    program, feeds, (y,) = fluid.io.load_onnx(path)
    assert (feeds, y.name, y.shape) == (["x"], "y", (-1, 4, 3))
    assert [op.type for op in program.global_block().ops] == ["reshape2", "transpose2", "assign"]
    x = RANDOM.normal(size=(2, 12)).astype("float32")
    np.testing.assert_array_equal(run(path, x=x)[0], x.reshape(2, 3, 4).transpose(0, 2, 1))


def test_two_sizes_that_the_run_knows() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Slice", ["shape", "first", "last"], ["front"]),
        helper.make_node("Mul", ["front", "factors"], ["more"]),
        helper.make_node("Concat", ["more", "rest"], ["sizes"], axis=0),
        helper.make_node("Reshape", ["x", "sizes"], ["y"]),
    ]
    constants = {name: np.array(value) for name, value in (("first", [0]), ("last", [2]), ("rest", [2]))}
    path = written(file_of(nodes, {"x": ["n", "m", 4]}, ["y"], factors=np.array([1, 2]), **constants))
    assert run(path, x=np.zeros((3, 5, 4), "float32"))[0].shape == (3, 10, 2)


def loop(body: list[Any], results: list[str], carried: list[str]) -> Any:
    """A body that goes on, with `carried` as what comes in."""
    whole = [("number", TensorProto.INT64), ("on", TensorProto.BOOL), *((name, FLOAT) for name in carried)]
    inputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in whole]
    outputs = [helper.make_tensor_value_info("on.1", TensorProto.BOOL, None)]
    outputs += [helper.make_tensor_value_info(name, FLOAT, None) for name in results]
    body = [helper.make_node("Identity", ["on"], ["on.1"]), *body]
    return helper.make_graph(body, "body", inputs, outputs)


def test_a_loop_whose_value_grows() -> None:
    """The shape that it has at first says nothing of later passes."""
    body = [
        helper.make_node("Concat", ["v", "x"], ["w"], axis=0),
        helper.make_node("Shape", ["v"], ["size"]),
        helper.make_node("Cast", ["size"], ["real"], to=FLOAT),
    ]
    made = loop(body, ["w", "real"], ["v"])
    nodes = [helper.make_node("Loop", ["count", "", "x"], ["y", "sizes"], body=made)]
    path = written(file_of(nodes, {"x": [1, 2]}, ["y", "sizes"], count=np.int64(3)))
    x = np.array([[1, 2]], "float32")
    y, sizes = run(path, x=x)
    np.testing.assert_array_equal(y, np.tile(x, (4, 1)))
    np.testing.assert_array_equal(sizes, [[1, 2], [2, 2], [3, 2]])


def test_values_that_change_places() -> None:
    made = loop([], ["b", "a"], ["a", "b"])
    nodes = [helper.make_node("Loop", ["count", "", "x", "z"], ["p", "q"], body=made)]
    path = written(file_of(nodes, {"x": [1], "z": [1]}, ["p", "q"], count=np.int64(3)))
    one, two = np.ones(1, "float32"), np.full(1, 2, "float32")
    assert [value[0] for value in run(path, x=one, z=two)] == [2, 1]


def test_branches() -> None:
    def branch(kind: str) -> Any:
        output = helper.make_tensor_value_info("r", FLOAT, None)
        return helper.make_graph([helper.make_node(kind, ["x"], ["r"])], kind, [], [output])

    nodes = [
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Greater", ["total", "limit"], ["is_more"]),
        helper.make_node("If", ["is_more"], ["y"], then_branch=branch("Neg"), else_branch=branch("Exp")),
    ]
    model = file_of(nodes, {"x": [2]}, ["y"], limit=np.float32(0))
    path = written(model)
    for x in (np.array([1, 2], "float32"), np.array([-1, -2], "float32")):
        (theirs,) = session_of(model.SerializeToString()).run(None, {"x": x})
        np.testing.assert_allclose(run(path, x=x)[0], theirs, rtol=1e-6)


GATED: dict[str, tuple[str, int, dict[str, Any]]] = {
    "lstm": ("LSTM", 4, {}),
    "lstm backwards": ("LSTM", 4, {"direction": "reverse"}),
    "lstm both ways": ("LSTM", 4, {"direction": "bidirectional"}),
    "lstm of others": ("LSTM", 4, {"activations": ["Sigmoid", "Relu", "Tanh"]}),
    "gru": ("GRU", 3, {}),
    "gru after": ("GRU", 3, {"linear_before_reset": 1}),
    "gru both ways": ("GRU", 3, {"direction": "bidirectional"}),
    "rnn": ("RNN", 1, {}),
    "rnn both ways": ("RNN", 1, {"direction": "bidirectional", "activations": ["Relu", "Relu"]}),
}


@pytest.mark.parametrize("name", GATED)
@pytest.mark.parametrize("peepholes", [False, True])
def test_recurrent_layers(name: str, peepholes: bool) -> None:
    """Those that the op rnn is, and those that are put together."""
    kind, gates, attrs = GATED[name]
    ways = 2 if attrs.get("direction") == "bidirectional" else 1
    shapes = {"w": [ways, gates * 5, 3], "r": [ways, gates * 5, 5], "b": [ways, 2 * gates * 5]}
    values = {key: RANDOM.normal(size=shape).astype("float32") for key, shape in shapes.items()}
    inputs, outputs = ["x", "w", "r", "b"], ["y", "h", "c"][: 3 if kind == "LSTM" else 2]
    if peepholes and kind == "LSTM":
        values["p"] = RANDOM.normal(size=(ways, 15)).astype("float32")
        inputs += ["", "", "", "p"]
    model = file_of(
        [helper.make_node(kind, inputs, outputs, hidden_size=5, **attrs)], {"x": [4, 2, 3]}, outputs, **values
    )
    x = RANDOM.normal(size=(4, 2, 3)).astype("float32")
    theirs = session_of(model.SerializeToString()).run(None, {"x": x})
    for ours, other in zip(run(written(model), x=x), theirs, strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-4, atol=1e-5)


def test_a_network_trains_further() -> None:
    values = {"w": RANDOM.normal(size=(3, 1)).astype("float32"), "b": np.zeros(1, "float32")}
    path = written(
        file_of([helper.make_node("Gemm", ["x", "w", "b"], ["y"])], {"x": ["n", 3]}, ["y"], **values)
    )
    program, _, (y,) = fluid.io.load_onnx(path)
    feed = {"x": RANDOM.normal(size=(16, 3)).astype("float32")}
    exe = fluid.Executor(fluid.CPUPlace())
    fluid.io.trainable(program)
    startup = fluid.Program()
    with fluid.program_guard(program, startup):
        loss = fluid.layers.mean(fluid.layers.square(fluid.layers.scale(y, 1.0, -1.0)))
        fluid.optimizer.SGD(0.1).minimize(loss)
    exe.run(startup)
    losses = [float(exe.run(program, feed=feed, fetch_list=[loss])[0]) for _ in range(20)]
    assert losses[-1] < losses[0] / 2


# ------------------------------------------------------------------------------------------------ files
def external(location: str, offset: int = 0, length: int = 16) -> Any:
    """A model whose weight lies in another file."""
    model = file_of([helper.make_node("Add", ["x", "w"], ["y"])], {"x": [4]}, ["y"], w=np.zeros(4, "float32"))
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        weight.external_data.add(key=key, value=str(value))
    return model


def test_weights_in_another_file() -> None:
    pathlib.Path("weights.bin").write_bytes(np.arange(8, dtype="float32").tobytes())
    path = written(external("weights.bin", 16))
    np.testing.assert_array_equal(run(path, x=np.zeros(4, "float32"))[0], [4, 5, 6, 7])


@pytest.mark.parametrize(
    "model, said",
    [
        (external("../weights.bin"), "lies in '../weights.bin', which is not a file in the folder"),
        (external("/etc/hostname"), "lies in '/etc/hostname', which is not a file"),
        (external("link.bin"), "lies in 'link.bin', which is not a file in the folder"),
        (external("weights.bin", 30), "takes 16 at 30 of the 32"),
        (external("weights.bin", 0, 20), "has 16 bytes, but takes 20 at 0"),
        (external("weights.bin", -4), "takes 16 at -4"),
        (external("gone.bin"), "lies in 'gone.bin', which is not a file"),
    ],
)
def test_other_files_are_not_read(model: Any, said: str, tmp_path: pathlib.Path) -> None:
    pathlib.Path("weights.bin").write_bytes(bytes(32))
    os.symlink("/etc/hostname", "link.bin")
    with pytest.raises(FormatError, match=said):
        fluid.io.load_onnx(written(model))


def changed(change: Callable[[Any], None], **values: Any) -> Any:
    """A model of one node, changed."""
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="first", strides=[1, 1])
    weight = {"w": np.zeros((2, 3, 3, 3), "float32"), **values}
    model = file_of([node], {"x": [1, 3, 5, 5]}, ["y"], **weight)
    change(model.graph)
    return model


def attribute(name: str, value: Any) -> Callable[[Any], None]:
    """Another attribute of the node."""
    return lambda graph: graph.node[0].attribute.append(helper.make_attribute(name, value))


CONV = r"ONNX op 'Conv' \(node 'first'\)"
WRONG: list[tuple[Callable[[Any], None], type[Exception], str]] = [
    (
        attribute("auto_pad", "SAME_LOWER"),
        UnsupportedError,
        f"{CONV}: its attribute 'auto_pad' is 'SAME_LOWER'",
    ),
    (attribute("wonder", 1), UnsupportedError, f"{CONV}: opset 17 has no attribute 'wonder' of it"),
    (attribute("group", 1.5), FormatError, f"{CONV} is malformed: its attribute 'group' has another type"),
    (attribute("kernel_shape", [5, 5]), FormatError, r"is \[5, 5\], and its filters are \[3, 3\]"),
    (attribute("pads", [1]), UnsupportedError, f"{CONV}: its inputs do not fit"),
    (attribute("group", 2), UnsupportedError, f"{CONV}: its inputs do not fit"),
    (
        lambda graph: graph.node[0].input.append("gone"),
        FormatError,
        "nothing before it computes its input 'gone'",
    ),
    (lambda graph: graph.node[0].input.extend(["", ""]), FormatError, "it has 4 inputs, and needs 2 to 3"),
    (
        lambda graph: setattr(graph.node[0], "op_type", "Conf"),
        UnsupportedError,
        "there is no such op in opset 17",
    ),
    (lambda graph: setattr(graph.node[0], "op_type", "Multinomial"), FormatError, "it has 2 inputs"),
    (lambda graph: setattr(graph.node[0], "domain", "my.own"), UnsupportedError, "no such op of 'my.own'"),
    (lambda graph: graph.node.append(graph.node[0]), FormatError, "two values called 'y'"),
    (lambda graph: graph.output[0].__setattr__("name", "z"), FormatError, "nothing computes the output 'z'"),
    (
        lambda graph: graph.input[0].type.tensor_type.ClearField("shape"),
        UnsupportedError,
        "input 'x' is not a tensor",
    ),
    (lambda graph: graph.input.append(graph.input[0]), FormatError, "called 'x', as another value"),
    (lambda graph: graph.initializer[0].dims.append(2**40), FormatError, "has 216 bytes, but float32"),
    (lambda graph: setattr(graph.initializer[0], "data_type", 99), FormatError, "has the element type 99"),
    (
        lambda graph: setattr(graph.initializer[0], "data_type", 8),
        UnsupportedError,
        "holds elements of object",
    ),
]


@pytest.mark.parametrize("change, kind, said", WRONG)
def test_wrong_files(change: Callable[[Any], None], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said) as found:
        fluid.io.load_onnx(written(changed(change)))
    assert "\n" not in str(found.value)


def test_what_is_no_file() -> None:
    pathlib.Path("text.onnx").write_text("not a model", encoding="utf8")
    with pytest.raises(FormatError, match="text.onnx is not an ONNX file"):
        fluid.io.load_onnx("text.onnx")
    with pytest.raises(MissingFileError, match="cannot open gone.onnx"):
        fluid.io.load_onnx("gone.onnx")
    old = file_of([helper.make_node("Neg", ["x"], ["y"])], {"x": [1]}, ["y"], opset=11)
    with pytest.raises(UnsupportedError, match="has opset 11, but opsets from 13 to"):
        fluid.io.load_onnx(written(old))


def test_no_shape_of_a_constant_is_allocated() -> None:
    """Sizes in a file are numbers: they are not filled while it is read."""
    nodes = [
        helper.make_node("ConstantOfShape", ["sizes"], ["zeros"]),
        helper.make_node("Expand", ["zeros", "sizes"], ["copies"]),
        helper.make_node("Add", ["x", "copies"], ["y"]),
    ]
    path = written(file_of(nodes, {"x": [1]}, ["y"], sizes=np.array([2**20, 2**20])))
    assert fluid.io.load_onnx(path).fetches[0].shape == (2**20, 2**20)


def test_loops_in_loops_end() -> None:
    """Bodies are read again where shapes change: not as often as there are loops in loops."""
    inner: list[Any] = []
    for depth in range(20):
        grows = helper.make_node("Concat", [f"v{depth}", "x"], [f"w{depth}"], axis=0)
        body = loop([*inner, grows], [f"w{depth}"], [f"v{depth}"])
        for info, name in zip(body.input[:2], (f"n{depth}", f"on{depth}"), strict=True):
            info.name = name
        body.node[0].input[0], body.node[0].output[0] = f"on{depth}", f"go{depth}"
        body.output[0].name = f"go{depth}"
        inner = [helper.make_node("Loop", ["count", "", "start"], [f"made{depth}"], body=body)]
    start = np.zeros((1, 2), "float32")
    path = written(file_of(inner, {"x": [1, 2]}, ["made19"], count=np.int64(1), start=start))
    with pytest.raises(UnsupportedError, match="loops inside of loops"):
        fluid.io.load_onnx(path)


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(file_of([helper.make_node("Neg", ["x"], ["y"])], {"x": [1]}, ["y"]))

    def nothing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(graph.importlib, "import_module", nothing)
    with pytest.raises(MissingExtraError, match=r"pip install 'fluidlite\[onnx\]'"):
        fluid.io.load_onnx(path)


def test_the_weights_scope() -> None:
    scope = fluid.Scope()
    model = changed(lambda graph: None)
    fluid.io.load_onnx(written(model), scope)
    assert scope.find_var("w") is not None and fluid.global_scope().find_var("w") is None
    assert onnx.load("model.onnx").graph.initializer[0].name == "w"
