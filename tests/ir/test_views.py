"""Programs have their views from the first moment on, whatever else was imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
program = {program}
block = program.global_block()
var = block.create_var(name="x", shape=[2, 3], dtype="float32")
op = block.append_op(type="relu", inputs={{"X": ["x"]}}, outputs={{"Out": ["x"]}})
assert program.desc.num_blocks() == 1 and block.desc.op_size() == 1
assert op.desc.type() == "relu" and var.desc.shape() == [2, 3]
again = type(program).parse_from_string(program.desc.serialize_to_string())
assert str(again) == str(program) and "relu" in program._repr_html_()
"""


@pytest.mark.parametrize(
    "lines",
    [
        ("import fluidlite as fluid", "fluid.Program()"),
        ("from fluidlite.ir.program import Program", "Program()"),
        ("import fluidlite.transpiler", "fluidlite.Program()"),
    ],
    ids=["fluid", "ir", "transpiler"],
)
def test_views_need_no_other_import(lines: tuple[str, str]) -> None:
    imports, program = lines
    subprocess.run([sys.executable, "-c", imports + CODE.format(program=program)], check=True)
