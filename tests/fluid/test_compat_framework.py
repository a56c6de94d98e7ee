"""The framework's public names, held to what PaddlePaddle 1.8.5 was seen to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import core, framework, layers
from fluidlite.core import AttrType, EnforceNotMet, ProgramDesc
from fluidlite.core import VarDesc as Desc
from fluidlite.ir.text import parse

VarType = Desc.VarType
MUL_ATTRS = {
    "x_num_col_dims",
    "y_num_col_dims",
    "use_mkldnn",
    "force_fp32_output",
    "scale_x",
    "scale_y",
    "scale_out",
    "op_role",
    "op_role_var",
    "op_namescope",
    "op_callstack",
    "op_device",
}


def block() -> Any:
    return fluid.default_main_program().global_block()


def var(name: str = "x", **fields: Any) -> Any:
    return block().create_var(name=name, **{"shape": [2, 3], "dtype": "float32", **fields})


def mul(**slots: Any) -> Any:
    var("x", shape=[5, 10]), var("y", shape=[10, 8]), var("o", shape=[5, 8])
    return block().append_op(
        **{"type": "mul", "inputs": {"X": ["x"], "Y": ["y"]}, "outputs": {"Out": ["o"]}, **slots}
    )


def scale(**attrs: Any) -> Any:
    return block().append_op(type="scale", inputs={"X": var("x")}, outputs={"Out": var("o")}, attrs=attrs)


def constant(**attrs: Any) -> Any:
    return block().append_op(
        type="fill_constant",
        outputs={"Out": block().create_var(name="c")},
        attrs={"dtype": 5, "value": 1.0, **attrs},
    )


def changed(op: Any, name: str, value: Any) -> Any:
    op._set_attr(name, value)
    return op.attr(name), op.attr_type(name)


def facts(table: dict[str, tuple[Callable[[], Any], Any]]) -> pytest.MarkDecorator:
    """A test for each row: what is done, and what came of it in 1.8.5, a type of error or a value."""
    return pytest.mark.parametrize(("act", "expected"), table.values(), ids=table)


def check(act: Callable[[], Any], expected: Any) -> None:
    if isinstance(expected, type) and issubclass(expected, Exception):
        with pytest.raises(expected):
            act()
    else:
        assert act() == expected


# ------------------------------------------------------------------------------------------------ operators
OPERATORS: dict[str, tuple[Callable[[], Any], Any]] = {
    "no type": (lambda: block().append_op(), ValueError),
    "no type, with a description": (
        lambda: framework.Operator(block(), block().desc.append_op()),
        ValueError,
    ),
    "an unknown type": (lambda: block().append_op(type="no_such_op"), ValueError),
    "an unknown type, with a description": (
        lambda: framework.Operator(block(), block().desc.append_op(), type="no_such_op"),
        ValueError,
    ),
    "an input is missing": (lambda: mul(inputs={"Y": ["y"]}), ValueError),
    "an output is missing": (lambda: mul(outputs={}), ValueError),
    "two inputs for one": (lambda: mul(inputs={"X": ["x", "x"], "Y": ["y"]}), ValueError),
    "an integer as input": (lambda: mul(inputs={"X": 3, "Y": "y"}), TypeError),
    "inputs that do not fit": (lambda: mul(inputs={"X": ["y"], "Y": ["y"]}), EnforceNotMet),
    "an input that nobody declares": (lambda: mul(inputs={"X": ["nope"], "Y": ["y"]}), EnforceNotMet),
    "a slot too many": (lambda: mul(inputs={"X": ["x"], "Y": ["y"], "Foo": ["x"]}).input_names, ["X", "Y"]),
    "an output slot too many": (lambda: mul(outputs={"Out": ["o"], "Foo": ["o"]}).output_names, ["Out"]),
    "a slot that there is not": (lambda: mul().input("Foo"), EnforceNotMet),
    "an output slot that there is not": (lambda: mul().output("Foo"), EnforceNotMet),
    "an output slot as input": (lambda: mul().input("Out"), EnforceNotMet),
    "an attribute that there is not": (lambda: mul().attr("foo"), EnforceNotMet),
    "a slot that may be empty": (lambda: scale().input("ScaleTensor"), []),
    "all attributes": (lambda: set(mul().attr_names), MUL_ATTRS),
    "all attributes by value": (lambda: set(mul().all_attrs()), MUL_ATTRS),
    "an attribute nothing reads": (lambda: (mul().attr("use_mkldnn"), mul().attr("scale_y")), (False, [1.0])),
    "a removed op's place": (lambda: (lambda op: (block()._remove_op(0), op.idx))(mul()), ValueError),
    "a kernel": (
        lambda: [mul()._has_kernel(name) for name in ("mul", "feed", "while")],
        [True, False, False],
    ),
    "a role as a number": (
        lambda: type(mul(attrs={"op_role": framework.OpRole.Optimize}).attr("op_role")),
        int,
    ),
    "a role that there is not": (lambda: mul(attrs={"op_role": 258}), EnforceNotMet),
    "a sub-block that there is not": (lambda: mul()._block_attr_id("foo"), EnforceNotMet),
    "renamed": (
        lambda: (
            lambda op: (
                op._rename_input("x", "z"),
                op._rename_output("o", "p"),
                op.input("X"),
                op.output("Out"),
            )
        )(mul()),
        (None, None, ["z"], ["p"]),
    ),
    "gpu:0": (lambda: fluid.device_guard("gpu:0").__enter__(), ValueError),
    "device 3": (lambda: fluid.device_guard(3).__enter__(), ValueError),  # type: ignore[arg-type]
}

ATTRIBUTES: dict[str, tuple[Callable[[], Any], Any]] = {
    "text for an integer": (lambda: mul(attrs={"x_num_col_dims": "a"}), EnforceNotMet),
    "1.0 for an integer": (lambda: mul(attrs={"x_num_col_dims": 1.0}), EnforceNotMet),
    "a list for an integer": (lambda: mul(attrs={"x_num_col_dims": [1]}), EnforceNotMet),
    "a block for an integer": (lambda: mul(attrs={"x_num_col_dims": block()}), EnforceNotMet),
    "2**40 for an integer": (lambda: mul(attrs={"x_num_col_dims": 2**40}), EnforceNotMet),
    "NumPy for an integer": (lambda: mul(attrs={"x_num_col_dims": np.int64(1)}).attr("x_num_col_dims"), 1),
    "None": (lambda: mul(attrs={"x_num_col_dims": None}).attr("x_num_col_dims"), 1),
    "an attribute too many": (lambda: mul(attrs={"x_num_col_dims": 1}).has_attr("foo"), False),
    "1 for a float": (lambda: scale(scale=1).attr("scale"), 1.0),
    "True for a float": (lambda: scale(scale=True).attr("scale"), 1.0),
    "0.1 has 32 bits": (lambda: scale(scale=0.1).attr("scale"), 0.10000000149011612),
    "and so have lists": (
        lambda: changed(mul(), "foo", [0.1, 0.2]),
        ([0.10000000149011612, 0.20000000298023224], AttrType.FLOATS),
    ),
    "text for a float": (lambda: scale(scale="a"), EnforceNotMet),
    "a list for a float": (lambda: scale(scale=[0.1]), EnforceNotMet),
    "1 for a boolean": (lambda: scale(bias_after_scale=1).attr("bias_after_scale") is True, True),
    "0.5 for a boolean": (lambda: scale(bias_after_scale=0.5).attr("bias_after_scale") is True, True),
    "text for a boolean": (lambda: scale(bias_after_scale="x"), EnforceNotMet),
    "floats for long integers": (lambda: constant(shape=[2.0, 3]).attr("shape"), [2, 3]),
    "a tuple for a list": (lambda: constant(shape=(2, 3)).attr("shape"), [2, 3]),
    "a number for a list": (lambda: constant(shape=3), EnforceNotMet),
    "texts for integers": (lambda: constant(shape=["a"]), EnforceNotMet),
    "a dtype by name": (lambda: constant(shape=[1], dtype="float32"), EnforceNotMet),
    "a dtype": (lambda: constant(shape=[1], dtype=VarType.FP32).attr("dtype"), 5),
    "set to another type": (lambda: changed(mul(), "x_num_col_dims", "a"), ("a", AttrType.STRING)),
    "set, new, text": (lambda: changed(mul(), "foo", b"s"), ("s", AttrType.STRING)),
    "set, new, long": (lambda: changed(mul(), "foo", 2**31), (2**31, AttrType.LONG)),
    "set, new, mixed numbers": (lambda: changed(mul(), "foo", [1, 2.5]), ([1.0, 2.5], AttrType.FLOATS)),
    "set, new, mixed": (lambda: changed(mul(), "foo", [1, "a"]), TypeError),
    "set, new, nested": (lambda: changed(mul(), "foo", [[1]]), TypeError),
    "types": (
        lambda: [str(mul().attr_type(name)) for name in ("x_num_col_dims", "op_role_var", "use_mkldnn")],
        ["AttrType.INT", "AttrType.STRINGS", "AttrType.BOOL"],
    ),
}


@facts(OPERATORS)
def test_operators(act: Callable[[], Any], expected: Any) -> None:
    check(act, expected)


@facts(ATTRIBUTES)
def test_attributes(act: Callable[[], Any], expected: Any) -> None:
    check(act, expected)


def test_an_operator_fills_in_a_description() -> None:
    desc = block().desc.append_op()
    var("x", shape=[5, 10]), var("y", shape=[10, 8])
    out = block().create_var(name="o")
    framework.Operator(block(), desc, type="mul", inputs={"X": ["x"], "Y": ["y"]}, outputs={"Out": ["o"]})
    assert (desc.type(), desc.input("X"), out.shape, out.dtype) == ("mul", ["x"], (5, 8), VarType.FP32)


# ---------- variables, parameters, blocks
def parameter(**fields: Any) -> Any:
    return block().create_parameter(**{"name": "w", "shape": [2], "dtype": "float32", **fields})


def taken_over() -> Any:
    parameter(trainable=False)
    layers.data("d", [3])
    other = fluid.Program()
    other.global_block().create_var(name="w", shape=[5], dtype="int64", persistable=True)
    other.global_block().create_var(name="d", shape=[-1, 3], dtype="float32")
    other._copy_param_info_from(fluid.default_main_program())
    other._copy_data_info_from(fluid.default_main_program())
    w, d = other.global_block().var("w"), other.global_block().var("d")
    return isinstance(w, framework.Parameter), w.trainable, w.shape, d.is_data, d.stop_gradient


VARIABLES: dict[str, tuple[Callable[[], Any], Any]] = {
    "no dtype yet": (lambda: block().create_var(name="a").dtype, VarType.BOOL),
    "then another": (
        lambda: (block().create_var(name="a"), block().create_var(name="a", dtype="float32")),
        ValueError,
    ),
    "uint16": (lambda: var(dtype="uint16").dtype, VarType.INT16),
    "no such dtype": (lambda: var(dtype="foo"), TypeError),
    "a dtype that fluid lacks": (lambda: var(dtype="uint32"), ValueError),
    "no dtype at all": (lambda: block().create_var(name="a", type=VarType.STEP_SCOPES).dtype, EnforceNotMet),
    "another shape": (lambda: (var(), var(shape=[4])), ValueError),
    "another level": (lambda: (var(lod_level=1), var(lod_level=2)), ValueError),
    "another kind": (lambda: (var(), var(type=VarType.SELECTED_ROWS)), ValueError),
    "persistable, then not": (lambda: (var(persistable=True), var(persistable=False)), ValueError),
    "not persistable, then so": (lambda: (var(), var(persistable=True)), ValueError),
    "a fraction in a shape": (lambda: var(shape=[2.0, 3]), TypeError),
    "text as a shape": (lambda: var(shape="ab"), TypeError),
    "made without create_var": (lambda: framework.Variable(block(), name="q") is block().var("q"), True),
    "notes": (
        lambda: (lambda x: (x._set_info("k", 3), x._get_info("k"), x._get_info("z")))(var()),
        (None, 3, None),
    ),
    "a switch that is none": (lambda: var().to_string(1), AssertionError),
    "the details' switch": (lambda: var().to_string(True, 2), AssertionError),
    **{
        f"{name}()": (lambda name=name: getattr(var(), name)(), AssertionError)  # type: ignore[misc]
        for name in ("numpy", "detach", "backward", "gradient", "clear_gradient")
    },
    "set_value()": (lambda: var().set_value(np.ones(1)), AssertionError),
    "a NumPy integer as index": (lambda: var()[np.int64(1)].shape, (3,)),
    "every second, backwards": (lambda: var()[::-2], AssertionError),
    "a parameter twice": (lambda: (parameter(), parameter(shape=[3])), ValueError),
    "a parameter of two dtypes": (lambda: (parameter(), parameter(dtype="int64")), ValueError),
    "a parameter that stops": (lambda: parameter(stop_gradient=True).stop_gradient, False),
    "a parameter's text": (lambda: parameter().to_string(1), AssertionError),
    "a block's text": (lambda: block().to_string(1), AssertionError),
    "a program's text": (lambda: fluid.Program().to_string(1), AssertionError),
    "what parameters know": (taken_over, (True, False, (5,), True, True)),
    "of no program": (lambda: fluid.Program()._copy_param_info_from(3), TypeError),  # type: ignore[arg-type]
    "data of no program": (lambda: fluid.Program()._copy_data_info_from(3), TypeError),  # type: ignore[arg-type]
    "of no block": (lambda: block()._copy_param_info_from(3), TypeError),
    "remove no variable": (lambda: block()._remove_var("zz"), KeyError),
    "rename no variable": (lambda: block()._rename_var("zz", "z"), ValueError),
    "rename by bytes": (lambda: (var(), block()._rename_var(b"x", b"z"), sorted(block().vars))[-1], ["z"]),
    "some ops": (
        lambda: (scale(scale=1.0), scale(scale=2.0), [op.attr("scale") for op in block()._slice_ops(1, 2)])[
            -1
        ],
        [2.0],
    ),
}


@facts(VARIABLES)
def test_variables(act: Callable[[], Any], expected: Any) -> None:
    check(act, expected)


# ------------------------------------------------------------------------------------------------ programs
def test_a_test_clone_keeps_what_its_ops_use() -> None:
    """The optimizer's, the learning rate's and all unused variables go, if there was anything to take out."""
    x = layers.data("x", [3])
    var("unused")
    loss = layers.mean(layers.fc(x, 3))
    assert "unused" in fluid.default_main_program().clone(for_test=True).global_block().vars
    fluid.optimizer.Adam(layers.exponential_decay(0.1, 10, 0.9)).minimize(loss)
    clone = fluid.default_main_program().clone(for_test=True)
    assert [op.type for op in clone.global_block().ops] == ["mul", "elementwise_add", "mean"]
    assert sorted(clone.global_block().vars) == [
        "fc_0.b_0",
        "fc_0.tmp_0",
        "fc_0.tmp_1",
        "fc_0.w_0",
        "mean_0.tmp_0",
        "x",
    ]


def test_a_test_clone_drops_the_blocks_of_the_backward_pass() -> None:
    x = layers.data("x", [3])
    sign = layers.less_than(layers.reduce_sum(x), layers.fill_constant([1], "float32", 0.0))
    y = layers.cond(sign, lambda: layers.fc(x, 3), lambda: layers.fc(x, 3) * 2.0)
    fluid.optimizer.SGD(0.1).minimize(layers.mean(y))
    program = fluid.default_main_program()
    clone = program.clone(for_test=True)
    assert (program.num_blocks, clone.num_blocks, [each.parent_idx for each in clone.blocks]) == (
        5,
        3,
        [-1, 0, 0],
    )


def test_which_roles_a_test_clone_keeps() -> None:
    x = var("x")
    for role in (0, 1, 2, 4, 8, 16, 18, 256, 257, 4096):
        block().append_op(
            type="scale", inputs={"X": x}, outputs={"Out": var(f"o{role}")}, attrs={"op_role": role}
        )
    clone = fluid.default_main_program().clone(for_test=True)
    assert [op.attr("op_role") for op in clone.global_block().ops] == [0, 4, 8, 256, 4096]


def test_pruning_takes_names() -> None:
    h = layers.fc(layers.data("x", [3]), 3)
    out = layers.fc(h, 2)
    program = fluid.default_main_program()
    program.random_seed = 7
    assert [op.type for op in program._prune_with_input(h.name, [out]).global_block().ops] == [
        "mul",
        "elementwise_add",
    ]
    with pytest.raises(ValueError, match="can only be str"):
        program._prune_with_input([3], [out])  # type: ignore[list-item]
    assert (program.clone().random_seed, program._inference_optimize().random_seed) == (7, 0)


def test_global_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fluid.Program, "_first_seed", 0)
    before, program = fluid.Program(), fluid.Program()
    program.global_seed(102)
    after = fluid.Program()
    assert [each.random_seed for each in (before, program, after, before.clone())] == [0, 102, 102, 0]
    assert parse(str(before)).random_seed == 0
    with pytest.raises(ValueError, match="must be an integer"):
        program.global_seed(1.5)  # type: ignore[arg-type]
    program.global_seed()
    assert fluid.Program().random_seed == program.random_seed == 0


# ---------- descriptions
def described(kind: Any, act: Callable[[Any], Any]) -> Callable[[], Any]:
    """Do something to a new variable of that kind."""

    def run() -> Any:
        desc = ProgramDesc().block(0).var(b"v")
        desc.set_type(kind)
        return act(desc)

    return run


def new_op() -> Any:
    op = ProgramDesc().block(0).append_op()
    op.set_type("test")
    op.set_input("X", ["a", "b"])
    return op


DESCRIPTIONS: dict[str, tuple[Callable[[], Any], Any]] = {
    "a new op": (lambda: (new_op().attr_names(), new_op().outputs()), ([], {})),
    "no such slot": (lambda: new_op().input("Y"), EnforceNotMet),
    "no such attribute": (lambda: new_op().attr("Y"), EnforceNotMet),
    "no such block": (lambda: new_op()._block_attr_id("Y"), EnforceNotMet),
    "a number in a slot": (lambda: new_op().set_input("X", [3]), TypeError),
    "an unregistered op's shape": (lambda: (lambda op: op.infer_shape(op.block()))(new_op()), EnforceNotMet),
    "no such kind": (lambda: ProgramDesc().block(0).var(b"v").set_type(5), TypeError),
    "a dtype by name": (described(VarType.LOD_TENSOR, lambda desc: desc.set_dtype("float32")), TypeError),
    "the first dtype": (described(VarType.LOD_TENSOR, lambda desc: desc.dtype()), VarType.BOOL),
    "the shape of scopes": (described(VarType.STEP_SCOPES, lambda desc: desc.shape()), EnforceNotMet),
    "a shape for scopes": (described(VarType.STEP_SCOPES, lambda desc: desc.set_shape([1])), EnforceNotMet),
    "the dtype of a reader": (described(VarType.READER, lambda desc: desc.dtype()), EnforceNotMet),
    "levels of rows": (described(VarType.SELECTED_ROWS, lambda desc: desc.set_lod_level(1)), EnforceNotMet),
    "shapes of a tensor": (described(VarType.LOD_TENSOR, lambda desc: desc.shapes()), EnforceNotMet),
    "a reader that reads less": (
        described(
            VarType.READER,
            lambda desc: (
                desc.set_shapes([[1], [2, 3]]),
                desc.set_dtypes([VarType.FP32]),
                desc.dtypes(),
                desc.shapes(),
            )[2:],
        ),
        ([VarType.FP32], [[]]),
    ),
    "a reader in order": (
        described(VarType.READER, lambda desc: (desc.set_lod_levels([1, 0]), desc.lod_levels())[1]),
        [1, 0],
    ),
    "a version": (
        lambda: (lambda desc: (desc._version(), desc._set_version(7), desc._version()))(ProgramDesc()),
        (1008005, None, 7),
    ),
    "bytes of an op": (lambda: b"test" in new_op().serialize_to_string(), True),
    "bytes of a block": (lambda: b"test" in new_op().block().serialize_to_string(), True),
    "bytes of a variable": (described(VarType.RAW, lambda desc: b"v" in desc.serialize_to_string()), True),
}


@facts(DESCRIPTIONS)
def test_descriptions(act: Callable[[], Any], expected: Any) -> None:
    check(act, expected)


def test_rows_are_inferred_from_rows() -> None:
    home = ProgramDesc().block(0)
    for name in (b"x0", b"x1"):
        home.var(name).set_type(VarType.SELECTED_ROWS)
    op = home.append_op()
    op.set_type("sum")
    op.set_input("X", ["x0", "x1"])
    op.set_output("Out", ["out"])
    home.var(b"out").set_type(VarType.LOD_TENSOR)
    op.infer_var_type(home)
    assert home.var(b"out").type() == VarType.SELECTED_ROWS


# ---------- names of the module
NAMES: dict[str, tuple[Callable[[], Any], Any]] = {
    "a dtype's text": (lambda: (str(VarType.FP32), repr(VarType.FP32)), ("VarType.FP32", "VarType.FP32")),
    "a role's text": (lambda: str(framework.OpRole.Forward), "OpRole.Forward"),
    "a name from a number": (lambda: fluid.unique_name.generate(3), TypeError),  # type: ignore[arg-type]
    "a holder": (lambda: framework.OpProtoHolder(), AssertionError),
    "a proto": (
        lambda: (lambda op: (op.type, [slot.name for slot in op.inputs], {attr.name for attr in op.attrs}))(
            framework.OpProtoHolder.instance().get_op_proto("mul")
        ),
        ("mul", ["X", "Y"], MUL_ATTRS),
    ),
    "no proto": (lambda: framework.OpProtoHolder.instance().get_op_proto("nope"), ValueError),
    "slots": (
        lambda: [
            (slot.name, slot.duplicable, slot.intermediate, slot.dispensable)
            for slot in framework.OpProtoHolder.instance().get_op_proto("dropout").outputs
        ],
        [("Out", False, False, False), ("Mask", False, True, False)],
    ),
    "defaults": (
        lambda: {
            name: core.get_op_attrs_default_value(b"dropout")[name] for name in ("dropout_prob", "op_role")
        },
        {"dropout_prob": 0.5, "op_role": 4096},
    ),
    "defaults of nothing": (lambda: core.get_op_attrs_default_value(b"nope"), {}),
    "a flag that there is not": (lambda: core.globals()["FLAGS_foo"], EnforceNotMet),
    "public flags": (
        lambda: [core.globals().is_public(name) for name in ("FLAGS_check_nan_inf", "FLAGS_foo")],
        [True, False],
    ),
    "a library": (lambda: fluid.load_op_library("nope.so"), EnforceNotMet),
    "no variable": (lambda: framework._get_var("q"), ValueError),
    "no program": (lambda: framework._get_var("q", 3), AssertionError),  # type: ignore[arg-type]
    "dygraph only": (lambda: framework.dygraph_only(lambda: 3)(), AssertionError),
    "not dygraph": (lambda: framework.dygraph_not_support(lambda: 3)(), 3),
    "the scope": (framework._full_name_scope, "/"),
    "the tracer": (framework._dygraph_tracer, None),
    "the program": (lambda: framework._main_program_ is fluid.default_main_program(), True),
}


@facts(NAMES)
def test_names(act: Callable[[], Any], expected: Any) -> None:
    check(act, expected)
