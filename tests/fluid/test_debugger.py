"""Programs as pseudo-code and drawings, flags, and the names of `fluid.core`."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import core, debugger
from fluidlite.proto import framework_pb2


@pytest.fixture
def program() -> fluid.Program:
    made = fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(made, fluid.Program()):
        loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 4]), 3))
        fluid.optimizer.SGD(0.1).minimize(loss)
    return made


def test_pseudo_code_shows_the_forward_part(program: fluid.Program) -> None:
    for text in (debugger.pprint_program_codes(program), debugger.pprint_program_codes(program.desc)):
        assert "mul(X=x, Y=fc_0.w_0) -> Out=fc_0.tmp_0" in text and "param fc_0.w_0: float32[4, 3]" in text
        assert "mul_grad" not in text and "@GRAD" not in text and "sgd" not in text
    text = debugger.pprint_block_codes(program.global_block(), show_backward=True)
    assert "mul_grad" in text and "fc_0.w_0@GRAD" in text and "sgd" in text


def test_drawings(program: fluid.Program, tmp_path: pathlib.Path) -> None:
    program.global_block().create_var(name='a "quoted" name')
    program.global_block().append_op(type="assign", inputs={"X": ["x"]}, outputs={"Out": ['a "quoted" name']})
    path = tmp_path / "block.dot"
    debugger.draw_block_graphviz(program.global_block(), highlights=["x"], path=str(path))
    text = path.read_text()
    assert text.startswith("digraph block {") and text.endswith("}\n")
    assert text.count("\n  op_0 [") == 1 and 'label="mul"' in text and 'label="fc_0.w_0\\n[4, 3]"' in text
    assert (
        text.count('"orange"') == 4 and '\\"quoted\\"' in text
    )  # x itself, and three edges of ops that read it


# ------------------------------------------------------------------------------------------------ flags
def test_flags() -> None:
    assert fluid.get_flags("FLAGS_check_nan_inf") == {"FLAGS_check_nan_inf": False}
    fluid.set_flags({"FLAGS_check_nan_inf": 1})
    try:
        assert fluid.get_flags(["FLAGS_check_nan_inf", "FLAGS_eager_delete_tensor_gb"]) == {
            "FLAGS_check_nan_inf": True,
            "FLAGS_eager_delete_tensor_gb": 0.0,
        }
        assert core.globals()["FLAGS_check_nan_inf"] is True
        assert core.init_gflags(["--check_nan_inf=false", "--tryfromenv=x"]) and not core.globals().get(
            "FLAGS_check_nan_inf"
        )
    finally:
        core.globals()["FLAGS_check_nan_inf"] = False
    for wrong in (lambda: fluid.get_flags("FLAGS_nope"), lambda: fluid.set_flags({"FLAGS_nope": 1})):
        with pytest.raises(ValueError, match="Flag FLAGS_nope cannot"):
            wrong()
    for wrong in (
        lambda: fluid.get_flags(3),
        lambda: fluid.set_flags(3),
        lambda: fluid.set_flags({"FLAGS_check_nan_inf": "abc"}),
    ):
        with pytest.raises(TypeError):
            wrong()


@pytest.mark.parametrize(
    "versions", [("1",), ("1.8.5",), ("1.8", "1.9"), ("0.0.0.0",), ("1.8.5.0",), ("1.8.5", "1.8.5.0")]
)
def test_versions_that_this_is(versions: tuple[str, ...]) -> None:
    assert fluid.require_version(*versions) is None


@pytest.mark.parametrize(
    ("versions", "error", "match"),
    [
        (("1.8.6",), Exception, "1.8.6 or higher"),
        (("0.1", "1.7"), Exception, r"in \[0.1, 1.7\]"),
        (("2.0",), Exception, "VersionError"),
        (("1.8.5.1",), Exception, "VersionError"),
        (("1.8.5", "1.8"), Exception, "VersionError"),
        (("abc",), ValueError, "'min_version' in require_version must be in format"),
        (("1.8.5-rc",), ValueError, "format"),
        (("1", "x"), ValueError, "'max_version'"),
        ((1,), TypeError, "'min_version'"),
        (("1.8.5", 1), TypeError, "'max_version'"),
    ],
)
def test_versions_that_this_is_not(versions: tuple[str, ...], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        fluid.require_version(*versions)


# ------------------------------------------------------------------------------------------------ core
def test_names_of_core() -> None:
    maker = core.op_proto_and_checker_maker
    assert (
        maker.kOpRoleAttrName(),
        maker.kOpRoleVarAttrName(),
        maker.kOpNameScopeAttrName(),
        maker.kOpCreationCallstackAttrName(),
        maker.kOpDeviceAttrName(),
    ) == ("op_role", "op_role_var", "op_namescope", "op_callstack", "op_device")
    assert (int(maker.OpRole.Backward), int(maker.OpRole.Optimize), int(maker.OpRole.Loss)) == (1, 2, 256)
    assert (core.empty_var_name(), core.kGradVarSuffix(), core.kTempVarName()) == (
        "@EMPTY@",
        "@GRAD",
        "@TEMP@",
    )
    assert core.VarDesc.VarType.FP32 == 5 and core.AttrType.BOOLS == core.AttrType.BOOLEANS
    assert "mul" in core.get_all_op_names() and core.has_grad_op_maker("mul") and core.op_support_gpu("mul")
    assert core.get_op_attrs_default_value(b"mul")["x_num_col_dims"] == 1
    assert core.size_of_dtype(core.VarDesc.VarType.FP64) == 8
    assert core.get_cuda_device_count() >= 0 and core.is_compiled_with_dist()


def test_gradient_descriptions(program: fluid.Program) -> None:
    op = program.desc.block(0).op(0)
    made, of = core.get_grad_op_desc(op, {"x@GRAD"}, [])
    assert [one.type() for one in made] == ["mul_grad"]
    assert made[0].output("Y@GRAD") == ["fc_0.w_0@GRAD"] and of["fc_0.w_0@GRAD"] == "fc_0.w_0"


def test_what_op_types_declare() -> None:
    """As 1.8.5 answered."""
    assert [name for name in ("relu", "reshape2_grad", "mul", "concat") if core.has_infer_inplace(name)] == [
        "relu",
        "reshape2_grad",
    ]
    assert core.infer_no_need_buffer_slots("elementwise_add_grad", {"X": ["x"]}, {}, {}) == {"X", "Y"}
    assert core.infer_no_need_buffer_slots("mul_grad", {}, {}, {}) == set()
    with pytest.raises(fluid.errors.UnknownOpError, match="reluu"):
        core.has_infer_inplace("reluu")
    kernels = core._get_all_register_op_kernels()
    assert "relu_grad" in kernels and "arg_max_grad" not in kernels
    assert all("MKLDNN" not in kernel for kernel in kernels["relu"])


def test_a_gradient_run_from_its_description() -> None:
    """As harnesses of operator tests do it: alone in a program, with buffers shared and not."""
    main = fluid.Program()
    block = main.global_block()
    x = block.create_var(name="X", shape=[2, 3], dtype="float32")
    outs = {slot: [block.create_var(name=slot, dtype="float32")] for slot in ("Out", "XShape")}
    op = block.append_op(type="reshape2", inputs={"X": [x]}, outputs=outs, attrs={"shape": [3, 2]})
    (made,), grads = core.get_grad_op_desc(op.desc, set(), [])
    gradient = fluid.Program()
    gradient.global_block().desc.append_op().copy_from(made)
    gradient._sync_with_cpp()
    for name in [*made.input_arg_names(), *made.output_arg_names()]:
        like = block.var(grads.get(name, name))
        gradient.global_block().create_var(
            name=name, shape=like.shape, dtype=like.dtype, persistable=0 in like.shape
        )
    exe = fluid.Executor(fluid.CPUPlace())
    fluid.global_scope().var("XShape").get_tensor().set(np.zeros([0, 2, 3], "float32"), fluid.CPUPlace())
    feed = {"Out@GRAD": np.arange(6, dtype="float32").reshape(3, 2)}
    strategy = fluid.BuildStrategy()
    strategy.enable_inplace = True
    shared = fluid.CompiledProgram(gradient).with_data_parallel(
        loss_name="", build_strategy=strategy, places=fluid.CPUPlace()
    )
    for program in (gradient, shared):
        (found,) = exe.run(program, feed, ["X@GRAD"])
        np.testing.assert_array_equal(found, feed["Out@GRAD"].reshape(2, 3))


# ---------- fluid.graphviz
def test_graphs_by_hand(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fluidlite.graphviz import GraphPreviewGenerator

    monkeypatch.setenv("PATH", str(tmp_path))  # without Graphviz there is a text, but no picture
    drawing = GraphPreviewGenerator("my title")
    op = drawing.add_op("mul")
    drawing.add_edge(drawing.add_param('w"', "float32[3]", highlight=True), op, highlight=True)
    group = drawing.graph.rank_group("same", 1)
    drawing.add_edge(op, drawing.graph.node("y", "arg", rank=group, shape="box"))
    drawing(str(tmp_path / "g.dot"))
    text = (tmp_path / "g.dot").read_text()
    assert text.startswith('digraph G {\ntitle = "my title"\nlayout="dot";') and text.endswith("}")
    assert (
        f"{op.name} [label=<<B>mul</B>>,shape=" in text
        and 'label="w\\"\\nfloat32[3]"' in text
        and "{rank=same;arg_" in text
    )
    assert '[color="orange"]' in text and '[color="#00000"]' in text


def test_messages_as_text() -> None:
    """As 1.8.5 writes them."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        x = fluid.layers.data("x", [3])
        fluid.layers.fc(x, 2)
        fluid.layers.data("ids", [1], dtype="int64", lod_level=1)
        data = fluid.default_main_program().desc.serialize_to_string()
    block = framework_pb2.ProgramDesc.FromString(data).blocks[0]
    texts = {var.name: debugger.repr_var(var) for var in block.vars}
    assert texts["ids"] == "LoDTensor ids (level=1, tensor(type=int64, shape=[-1, 1]))"
    assert texts["fc_0.b_0"] == "Tensor fc_0.b_0 (tensor(type=float32, shape=[2]))"
    product = block.ops[0]
    assert debugger.repr_op(product).startswith("fc_0.tmp_0 = mul(X=x, Y=fc_0.w_0) [{")
    found = [debugger.repr_attr(attr) for attr in product.attrs if attr.name == "x_num_col_dims"]
    assert found == [("x_num_col_dims=1", ("x_num_col_dims", 1))]
    assert debugger.repr_data_type(5) == "float32"
