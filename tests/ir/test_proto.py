"""Programs as Paddle's bytes: read, written, and what is kept on the way."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.base import flags
from fluidlite.base.registry import AttrType, Spec
from fluidlite.errors import FormatError, UnknownOpError
from fluidlite.ir.framework_pb import ProgramDesc
from fluidlite.ir.operator import Operator
from fluidlite.ir.proto import serialize_program
from fluidlite.ir.where import Where

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
FILES = [*sorted(GOLDEN.glob("models/*/inference/__model__")), *sorted(GOLDEN.glob("models/*/saved.pdmodel"))]
RUNS = sorted(GOLDEN.glob("runs/*.npz"))


def run_programs(path: pathlib.Path) -> list[bytes]:
    """The programs that a golden run recorded from 1.8.5 (or 2.6.2)."""
    with np.load(path) as arrays:
        return [arrays[name].tobytes() for name in arrays.files if name.startswith(("program", "startup"))]


def facts(data: bytes) -> list[object]:
    """Contents of a program by protobuf alone: names, kinds, shapes, ops with slots and typed attributes."""
    found: list[object] = []
    for block in ProgramDesc.FromString(data).blocks:
        found.append((block.idx, block.parent_idx, block.forward_block_idx))
        for var in sorted(block.vars, key=lambda var: var.name):
            tensor = (
                var.type.lod_tensor if var.type.HasField("lod_tensor") else var.type.tensor_array
            ).tensor
            dims = [max(dim, -1) for dim in tensor.dims]
            found.append(
                (
                    var.name,
                    var.type.type,
                    var.persistable,
                    var.need_check_feed,
                    dims if var.type.type == 7 else None,
                )
            )
        for op in block.ops:
            slots = [
                sorted((slot.parameter, tuple(slot.arguments)) for slot in one)
                for one in (op.inputs, op.outputs)
            ]
            attrs = {
                attr.name: attr.SerializeToString(deterministic=True)
                for attr in op.attrs
                if attr.name != b"op_callstack"
            }
            found.append((op.type, slots, attrs))
    return found


def assert_keeps(before: bytes, after: bytes) -> None:
    """`after` says all that `before` says; ops may carry more attributes, which are defaults."""
    first, second = facts(before), facts(after)
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        if isinstance(one, tuple) and isinstance(one[-1], dict):
            assert isinstance(other, tuple)
            assert one[:-1] == other[:-1]
            assert one[-1].items() <= other[-1].items(), one[0]
        else:
            assert one == other


@pytest.mark.parametrize("path", FILES, ids=lambda path: "-".join(path.parts[-3:]))
def test_saved_models_survive(path: pathlib.Path) -> None:
    data = path.read_bytes()
    program = fluid.Program.parse_from_string(data)
    written = serialize_program(program)
    assert_keeps(data, written)
    assert serialize_program(fluid.Program.parse_from_string(written)) == written
    assert serialize_program(program.clone()) == written


def test_recorded_programs_survive() -> None:
    for path in RUNS:
        for data in run_programs(path):
            if ProgramDesc.FromString(data).version.version > flags.PROGRAM_VERSION:
                continue  # 2.x has types of attributes that fluid has not
            assert_keeps(data, serialize_program(fluid.Program.parse_from_string(data)))


def block(program: fluid.Program) -> fluid.framework.Block:
    return program.global_block()


def test_variables_and_parameters_come_back() -> None:
    program = fluid.Program()
    x = block(program).create_var(
        name="x", shape=[-1, 3], dtype="int64", lod_level=2, need_check_feed=True, stop_gradient=True
    )
    block(program).create_parameter(name="w", shape=[3, 4], dtype="float64")
    block(program).create_var(
        name="sparse", type=fluid.core.VarDesc.VarType.SELECTED_ROWS, shape=[9, 2], persistable=True
    )
    block(program).create_var(
        name="array", type=fluid.core.VarDesc.VarType.LOD_TENSOR_ARRAY, shape=[-1, 2], dtype="float32"
    )
    block(program).create_var(name="scopes", type=fluid.core.VarDesc.VarType.STEP_SCOPES)
    block(program).create_var(
        name="reader", type=fluid.core.VarDesc.VarType.READER, reader_specs=[Spec((-1, 3), x.dtype, 1)]
    )
    again = block(fluid.Program.parse_from_string(program.desc.serialize_to_string()))
    assert [
        (var.name, var.type, var._dtype, var.shape, var.lod_level, var.persistable)
        for var in again.vars.values()
    ] == [
        (var.name, var.type, var._dtype, var.shape, var.lod_level, var.persistable)
        for var in block(program).vars.values()
    ]
    assert isinstance(again.var("w"), fluid.framework.Parameter)
    assert again.var("x").stop_gradient and again.var("x").need_check_feed
    assert again.var("reader").reader_specs == (Spec((-1, 3), x.dtype, 1),)


def test_attributes_keep_values_and_types() -> None:
    values = {
        "i": 3,
        "f": 0.1,
        "s": "text",
        "ints": [1, -2],
        "floats": [0.5, 1e-8],
        "strings": ["a", "é"],
        "b": True,
        "bools": [True, False],
        "l": 2**40,
        "longs": [1, 2**40],
        "empty": [],
    }
    program = fluid.Program()
    block(program).create_var(name="x", shape=[2], is_data=True)
    op = block(program).append_op(type="relu", inputs={"X": ["x"]}, outputs={"Out": ["x"]}, attrs={})
    for name, value in values.items():  # those that a type does not have are dropped when it is built
        op._set_attr(name, value)
    inner = program._create_block()
    op._set_attr("sub", inner)
    op._set_attr("subs", [inner])
    again = block(fluid.Program.parse_from_string(serialize_program(program))).ops[0]
    assert {name: again.attrs[name] for name in values} == values
    assert again.attr("f") == float(np.float32(0.1))
    assert {name: again.attr_type(name) for name in values} == {name: op.attr_type(name) for name in values}
    assert again.attr("sub") is again.block.program.blocks[1]
    assert again.attr("subs") == [again.block.program.blocks[1]]
    assert again.attr_type("sub") == AttrType.BLOCK and again.attr_type("subs") == AttrType.BLOCKS


def test_float_attributes_are_the_shortest_decimals() -> None:
    program = fluid.Program()
    block(program).create_var(name="x", shape=[2], is_data=True)
    block(program).append_op(type="scale", inputs={"X": ["x"]}, outputs={"Out": ["x"]}, attrs={"scale": 0.1})
    assert block(fluid.Program.parse_from_string(serialize_program(program))).ops[0].attrs["scale"] == 0.1


def test_user_location_comes_back() -> None:
    program = fluid.Program()
    block(program).create_var(name="x", shape=[2], is_data=True)
    op = block(program).append_op(type="relu", inputs={"X": ["x"]}, outputs={"Out": ["x"]})
    again = block(fluid.Program.parse_from_string(serialize_program(program))).ops[0]
    assert again.where == op.where and again.where is not None and again.where.file == __file__
    assert op.where is not None and again.where.callers == op.where.frames()[1:]


def test_an_op_knows_the_calls_that_lead_to_it() -> None:
    def inner(program: fluid.Program) -> Operator:
        return block(program).append_op(type="relu", inputs={"X": ["x"]}, outputs={"Out": ["x"]})

    def outer(program: fluid.Program) -> Operator:
        return inner(program)

    program = fluid.Program()
    block(program).create_var(name="x", shape=[2], is_data=True)
    where = outer(program).where
    assert where is not None and where.called == "append_op"
    functions = [where.function, *(caller.function for caller in where.callers)]
    assert functions[:3] == ["inner", "outer", "test_an_op_knows_the_calls_that_lead_to_it"]


def test_call_stack_of_paddle_names_the_innermost_user_frame() -> None:
    desc = ProgramDesc()
    made = desc.blocks.add(idx=0, parent_idx=-1).ops.add(type=b"relu")
    attr = made.attrs.add(name=b"op_callstack", type=5)
    attr.strings.extend(
        [
            (
                b'  File "/usr/lib/python3.7/site-packages/paddle/fluid/framework.py", line 2610, '
                b"in append_op\n    attrs)\n"
            ),
            b'  File "/home/someone/train.py", line 4, in net\n    caf\xe9 = fc(x)\n',
            b'  File "train.py", line 9, in <module>\n',
        ]
    )
    where = block(fluid.Program.parse_from_string(desc.SerializeToString())).ops[0].where
    assert where == Where("/home/someone/train.py", 4, "net")
    assert where.callers == (Where("train.py", 9),) and where.called == "append_op"


def test_unknown_op_is_kept_and_fails_only_when_run() -> None:
    desc = ProgramDesc()
    first = desc.blocks.add(idx=0, parent_idx=-1)
    first.vars.add(name=b"out").type.type = 7
    made = first.ops.add(type=b"a_new_op")
    made.outputs.add(parameter=b"Out", arguments=[b"out"])
    made.attrs.add(name=b"size", type=9).l = 7
    program = fluid.Program.parse_from_string(desc.SerializeToString())
    op = block(program).ops[0]
    assert op.attr("size") == 7 and op.attr_type("size") == AttrType.LONG
    assert_keeps(desc.SerializeToString(), serialize_program(program))
    with pytest.raises(UnknownOpError, match="a_new_op"):
        fluid.Executor(fluid.CPUPlace()).run(program)


def test_missing_attributes_get_their_defaults() -> None:
    desc = ProgramDesc()
    first = desc.blocks.add(idx=0, parent_idx=-1)
    first.ops.add(type=b"mul").inputs.add(parameter=b"X", arguments=[b"x"])
    op = block(fluid.Program.parse_from_string(desc.SerializeToString())).ops[0]
    assert op.attr("x_num_col_dims") == 1
    assert (op.attr("op_role"), op.attr("op_role_var"), op.attr("op_namescope"), op.attr("op_device")) == (
        0,
        [],
        "/",
        "",
    )


def test_attribute_types_of_2x_become_the_nearest() -> None:
    desc = ProgramDesc()
    made = desc.blocks.add(idx=0, parent_idx=-1).ops.add(type=b"some_op")
    made.attrs.add(name=b"d", type=15).float64 = 0.25
    made.attrs.add(name=b"ds", type=12).float64s.extend([0.25, 2.0])
    made.attrs.add(name=b"v", type=13).var_name = b"x"
    made.attrs.add(name=b"vs", type=14).vars_name.append(b"x")
    scalar = made.attrs.add(name=b"n", type=16).scalar
    scalar.type, scalar.i = 2, 5
    one = made.attrs.add(name=b"ns", type=17).scalars.add()
    one.type, one.r = 3, 1.5
    op = block(fluid.Program.parse_from_string(desc.SerializeToString())).ops[0]
    assert {name: op.attr(name) for name in ("d", "ds", "v", "vs", "n", "ns")} == {
        "d": 0.25,
        "ds": [0.25, 2.0],
        "v": "x",
        "vs": ["x"],
        "n": 5,
        "ns": [1.5],
    }


def test_variables_that_nothing_writes_are_feeds() -> None:
    program = fluid.Program.parse_from_string((GOLDEN / "models/mlp/saved.pdmodel").read_bytes())
    assert {var.name for var in program.list_vars() if var.is_data} == {"x", "y"}
    program = fluid.Program.parse_from_string((GOLDEN / "models/convnet/inference/__model__").read_bytes())
    assert [var.name for var in program.list_vars() if var.is_data] == ["image"]


def test_an_attribute_that_fits_no_type_is_named() -> None:
    program = fluid.Program()
    block(program).create_var(name="x", shape=[2], is_data=True)
    op = block(program).append_op(type="relu", inputs={"X": ["x"]}, outputs={"Out": ["x"]})
    op.attr_types["seed"], op.attrs["seed"] = AttrType.INT, 2**40
    with pytest.raises(ValueError, match="attribute 'seed'"):
        serialize_program(program)


def test_desc_reads_and_writes_programs() -> None:
    desc = fluid.core.ProgramDesc()
    op = desc.block(0).append_op()
    op.set_type("relu")
    desc.block(0).var(b"x").set_shape([2, 3])
    desc.block(0).var("x").set_dtype(fluid.core.VarDesc.VarType.FP64)
    desc.block(0).var("y")
    op.set_input("X", ["x"])
    op.set_output("Out", ["y"])
    op.check_attrs()
    op.infer_var_type(desc.block(0))
    op.infer_shape(desc.block(0))
    assert desc.block(0).find_var("y").shape() == [2, 3]
    assert desc.block(0).find_var("y").dtype() == fluid.core.VarDesc.VarType.FP64
    copy = fluid.core.ProgramDesc(desc.serialize_to_string())
    assert copy.block(0).op(0).input_arg_names() == ["x"] and copy.block(0).op(0).outputs() == {"Out": ["y"]}
    assert desc.block(0) == desc.block(0) and desc.block(0).op_size() == 1 and desc.num_blocks() == 1
    with pytest.raises(FormatError):
        fluid.core.ProgramDesc(b"garbage")
