"""The text of a program is read back: print(parse(print(p))) is print(p)."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fluidlite as fluid
from fluidlite.base.registry import AttrType, Spec
from fluidlite.errors import FormatError
from fluidlite.ir.proto import serialize_program
from fluidlite.ir.text import parse

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
VarType = fluid.core.VarDesc.VarType


def assert_reads_back(program: fluid.Program) -> None:
    text = str(program)
    again = parse(text)
    assert str(again) == text
    assert serialize_program(again) == serialize_program(program)
    assert [type(var) for var in again.list_vars()] == [type(var) for var in program.list_vars()]


def test_golden_programs_read_back() -> None:
    for path in sorted(GOLDEN.glob("runs/*.npz")):
        with np.load(path) as arrays:
            for name in arrays.files:
                if name.startswith(("program", "startup")):
                    assert_reads_back(fluid.Program.parse_from_string(arrays[name].tobytes()))


def small_program() -> fluid.Program:
    program = fluid.Program()
    program.random_seed = 7
    block = program.global_block()
    block.create_var(
        name="img", shape=[-1, 3], dtype="float32", is_data=True, need_check_feed=True, stop_gradient=True
    )
    block.create_parameter(
        name="fc.w", shape=[3, 4], dtype="float32", trainable=False, optimize_attr={"learning_rate": 0.5}
    )
    block.create_var(name="out")
    with fluid.name_scope("net"), fluid.device_guard("cpu"):
        block.append_op(type="mul", inputs={"X": ["img"], "Y": ["fc.w"]}, outputs={"Out": ["out"]})
    return program


def test_the_format_is_what_it_was() -> None:
    text = str(small_program())
    lines = text.replace(f'"{__file__}"', '"test.py"').split("\n")
    assert lines[:6] == [
        "program random_seed=7",
        "",
        "block 0",
        "  data img: float32[-1, 3] stop_gradient need_check_feed",
        "  param fc.w: float32[3, 4] trainable=false learning_rate=0.5",
        "  var out: float32[-1, 4]",
    ]
    assert lines[6].startswith(
        "  mul(X=img, Y=fc.w) -> Out=out {x_num_col_dims=1, y_num_col_dims=1} "
        'scope="/net/" device="cpu" at "test.py":'
    )
    assert lines[6].endswith(" in small_program")


def test_parsed_programs_are_whole() -> None:
    program = parse(str(small_program()))
    param = program.all_parameters()[0]
    assert param.optimize_attr == {"learning_rate": 0.5} and not param.trainable and param.persistable
    assert program.global_block().ops[0].where is not None and program.random_seed == 7
    program.verify()


def test_written_by_hand() -> None:
    program = parse("""
        program
        # a comment

block 0
  data x: float32[-1, 3]
  var y: float32[-1, 3]
  relu(X=x) -> Out=y role=Backward|Loss
""")
    exe = fluid.Executor(fluid.CPUPlace())
    found = exe.run(program, feed={"x": np.array([[-1, 0, 2]], "float32")}, fetch_list=["y"])[0]
    assert found.tolist() == [[0, 0, 2]]
    assert program.global_block().ops[0].attr("op_role") == 257


@pytest.mark.parametrize(
    "text",
    [
        "",
        "program",
        "block 0",
        "program\nblock 1",
        "program\nblock 0\n  var x",
        "program\nblock 0\n  var x: float99[3]",
        "program\nblock 0\n  var x: float32[3\n",
        "program\nblock 0\n  var x: float32[3] shiny",
        "program\nblock 0\n  relu(X=x",
        "program\nblock 0\n  var x: float32[]\n  var x: float32[]",
        "program\nblock 0\n  relu(X=x) -> Out=y {a=}",
        "program\nblock 0\n  relu(X=x) -> Out=y {a=block 4}",
        "program\nblock 0\n  relu(X=x) -> Out=y role=Cook",
        "program\nblock 0 parent=0",
        'program\nblock 0\n  relu() {a=[1, "b": ints}',
        "program\nblock 0\n  relu() {a=1: shape}",
        *(
            f"program\nblock 0\n  relu() {{a={value}}}"
            for value in ("-9: longs", "[1]: long", '"b": int', "1: block", "block 0: int")
        ),
        "program\nblock 0\n  relu() left over",
        'program\nblock 0\n  relu() at "x"',
        "program\nblock 0\n  a() {b=block 0}",
        "program\nblock 0\n  var x: float32[" + "1, " * 100 + "1]",
        "program\nblock 0\n  relu() {a=" + "9" * 5000 + "}",
    ],
)
def test_what_cannot_be_read_is_a_format_error(text: str) -> None:
    with pytest.raises(FormatError):
        parse(text)


def test_errors_name_the_line() -> None:
    with pytest.raises(FormatError, match=r"line 4: .*'float99'"):
        parse("program\n\nblock 0\n  var x: float99[3]\n")


# ------------------------------------------------------------------------------------------------ any program
names = st.text(st.characters(exclude_categories=()), max_size=12)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
floats = st.floats(allow_nan=False, width=32)
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
ATTRS = {
    AttrType.INT: int32,
    AttrType.FLOAT: floats,
    AttrType.STRING: texts,
    AttrType.INTS: st.lists(int32, max_size=3),
    AttrType.FLOATS: st.lists(floats, max_size=3),
    AttrType.STRINGS: st.lists(texts, max_size=3),
    AttrType.BOOLEAN: st.booleans(),
    AttrType.BOOLEANS: st.lists(st.booleans(), max_size=3),
    AttrType.LONG: int64,
    AttrType.LONGS: st.lists(int64, max_size=3),
}
specs = st.builds(
    Spec,
    st.lists(st.integers(-1, 9), max_size=3).map(tuple),
    st.sampled_from([VarType.FP32, VarType.INT64]),
    st.integers(0, 2),
)


@st.composite
def programs(draw: st.DrawFn) -> fluid.Program:
    program = fluid.Program()
    for _ in range(draw(st.integers(0, 2))):
        program._create_block()
    for block in program.blocks:
        for name in draw(st.lists(names, max_size=3, unique=True)):
            block.create_var(
                name=name or "unnamed",
                type=draw(st.sampled_from(list(VarType))),
                shape=draw(specs).shape,
                dtype="float32",
                lod_level=draw(st.integers(0, 2)),
                persistable=draw(st.booleans()),
                is_data=draw(st.booleans()),
                stop_gradient=draw(st.booleans()),
                need_check_feed=draw(st.booleans()),
            )
            block.vars[name or "unnamed"].reader_specs = tuple(draw(st.lists(specs, max_size=2)))
        for _ in range(draw(st.integers(0, 2))):
            draw_operator(draw, block)
    return program


def draw_operator(draw: st.DrawFn, block: fluid.framework.Block) -> None:
    slots = st.dictionaries(names, st.lists(names, max_size=3), max_size=2)
    op = fluid.framework.Operator(block, type=draw(names), inputs=draw(slots), outputs=draw(slots))
    for name in draw(st.lists(names, max_size=4, unique=True)):
        attr_type = draw(st.sampled_from(list(ATTRS)))
        op.attrs[name], op.attr_types[name] = draw(ATTRS[attr_type]), attr_type
    op.attrs.update(
        op_role=draw(st.integers(0, 600)),
        op_role_var=draw(st.lists(names, max_size=2)),
        op_namescope=draw(texts),
    )
    later = block.program.blocks[block.idx + 1 :]
    if later:
        op.attrs.update(sub_block=later[0], optimize_blocks=later)
    block.adopt(len(block.ops), op)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_any_program_reads_back(program: fluid.Program) -> None:
    text = str(program)
    assert str(parse(text)) == text
    assert str(program.clone()) == text
