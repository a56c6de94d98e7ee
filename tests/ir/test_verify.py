"""`Program.verify` names the op, the values and the user's line of what cannot run."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.errors import ProgramEditError
from fluidlite.ir.text import parse
from fluidlite.ir.verify import verify

RUNS = sorted((pathlib.Path(__file__).parents[1] / "golden" / "runs").glob("*.npz"))


MISDECLARED = "click_through"  # 1.8.5 declares the map of filter_by_instag with two columns, and it has three


def test_a_wrong_declaration_of_1_8_5_is_found() -> None:
    with np.load(RUNS[0].with_name(f"{MISDECLARED}.npz")) as arrays:
        program = fluid.Program.parse_from_string(arrays["program0"].tobytes())
    with pytest.raises(ProgramEditError, match=r"declared as VarType.INT64 \[-1, 2\], and the op makes"):
        program.verify()


@pytest.mark.parametrize(
    "path",
    [path for path in RUNS if not path.stem.startswith("v2_") and path.stem != MISDECLARED],
    ids=lambda path: path.stem,
)
def test_programs_of_1_8_5_are_right(path: pathlib.Path) -> None:
    with np.load(path) as arrays:
        programs = [
            arrays[name].tobytes() for name in arrays.files if name.startswith(("program", "startup"))
        ]
    for data in programs:
        program = fluid.Program.parse_from_string(data)
        before = str(program)
        program.verify()
        assert str(program) == before


def net() -> fluid.Program:
    return parse("""
program

block 0
  data x: float32[-1, 4]
  param w: float32[4, 3]
  var h: float32[-1, 3]
  var y: float32[-1, 3]
  mul(X=x, Y=w) -> Out=h {x_num_col_dims=1, y_num_col_dims=1} at "net.py":7
  relu(X=h) -> Out=y at "net.py":8
""")


def test_a_right_program_passes() -> None:
    net().verify()
    net().verify()


def wrong(program: fluid.Program) -> str:
    with pytest.raises(ProgramEditError) as caught:
        program.verify()
    return str(caught.value)


def test_a_shape_that_does_not_fit() -> None:
    program = net()
    program.global_block().var("w").shape = (5, 3)
    message = wrong(program)
    assert "op 'mul' (number 0 of block 0)" in message and "w[5, 3]" in message and "net.py:7" in message


def test_a_declaration_that_no_op_makes() -> None:
    program = net()
    program.global_block().var("y").shape = (-1, 2)
    assert "'y' is declared as VarType.FP32 [-1, 2], and the op makes VarType.FP32 [-1, 3]" in wrong(program)
    program.global_block().var("y").shape = (-1, 3)
    program.global_block().var("y").dtype = "float64"
    assert "VarType.FP64" in wrong(program)


def test_use_before_definition() -> None:
    program = net()
    program.global_block().ops.reverse()
    message = wrong(program)
    assert "reads 'h' before op 'mul' (number 1 of its block) writes it" in message and "net.py:8" in message


def test_what_nothing_writes() -> None:
    program = net()
    program.global_block()._remove_op(0)
    assert "reads 'h' before anything writes it" in wrong(program)
    verify(program, feeds=["h"])


def test_an_undeclared_name_and_the_nearest() -> None:
    program = net()
    program.global_block().ops[1].set_input("X", ["hh"])
    assert "reads 'hh', which no block around it declares; did you mean 'h'?" in wrong(program)
    program = net()
    program.global_block().ops[1].set_output("Out", ["yy"])
    assert "writes 'yy', which no block around it declares" in wrong(program)


def test_slots() -> None:
    program = net()
    program.global_block().ops[0].set_input("Y", [])
    assert "the input slot Y is empty" in wrong(program)
    program = net()
    program.global_block().ops[1].set_input("X", ["h", "h"])
    assert "the input slot X takes one variable" in wrong(program)
    program = net()
    program.global_block().ops[1].set_output("Outt", ["y"])
    assert "no output slot 'Outt'; did you mean 'Out'?" in wrong(program)


def test_unknown_op() -> None:
    program = parse("program\n\nblock 0\n  reluu()\n")
    assert "no op of that type is registered; did you mean" in wrong(program)


def test_one_op_writes_a_name_twice() -> None:
    program = parse(
        "program\n\nblock 0\n  data x: float32[4]\n  var y: float32[2]\n"
        "  split(X=x) -> Out=[y, y] {num=2, axis=0, sections=[]}\n"
    )
    assert "writes 'y' twice" in wrong(program)


def test_sub_blocks_stand_inside() -> None:
    text = """
program

block 0
  data c: bool[1]
  data x: float32[3]
  var y: float32[3]
  var s: step_scopes
  conditional_block(Cond=c, Input=x) -> Out=y, Scope=s {sub_block=block 1, is_scalar_condition=True}

block 1 parent=0
  relu(X=x) -> Out=y
"""
    parse(text).verify()
    program = parse(text)
    program.blocks[1].parent_idx = -1
    assert "runs block 1, whose parent is block -1" in wrong(program)
    program = parse(text)
    program.blocks[1].parent_idx = 1
    assert "block 1 is its own ancestor" in wrong(program)
    program = parse(text)
    program.blocks[1].ops[0]._set_attr("sub_block", program.blocks[1])
    assert "block 1 runs itself" in wrong(program)


def test_a_variable_under_another_name() -> None:
    program = net()
    program.global_block().vars["z"] = program.global_block().vars.pop("y")
    assert "keeps variable 'y' under the name 'z'" in wrong(program)


def test_built_programs_verify() -> None:
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        x = fluid.data("x", [None, 4])
        loss = fluid.layers.mean(fluid.layers.fc(x, 3, act="relu"))
        fluid.optimizer.SGD(0.1).minimize(loss)
        fluid.default_startup_program().verify()
    program.verify()
    program.clone(for_test=True).verify()
