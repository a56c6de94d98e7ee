"""Places to touch: an op is one block and one row, a pass or a mode is one file and one line.

Each is added to a copy of the house in exactly these places; what the house then does with it runs in a
process that imports the copy. (`tests/comm/toy_transport.py` is a transport in one file, and a row of the
table that runs all transports.)
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest
from modules import HOMES, ROOT

HERE = pathlib.Path(__file__).parent
WITHOUT_CACHES = shutil.ignore_patterns("__pycache__")


class House:
    """A copy of the installed packages and of the op table, in which places are touched and counted."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.touched: list[str] = []
        for package, home in HOMES.items():
            shutil.copytree(ROOT / home, folder / package.replace(".", "/"), ignore=WITHOUT_CACHES)
        shutil.copytree(ROOT / "tests" / "ops", folder / "tests" / "ops", ignore=WITHOUT_CACHES)

    def write(self, path: str, text: str) -> None:
        """A new file."""
        assert not (self.folder / path).exists()
        (self.folder / path).write_text(textwrap.dedent(text), encoding="utf8")
        self.touched.append(path)

    def insert(self, path: str, before: str, text: str) -> None:
        """A piece of text in front of the last place where a file says something."""
        file = self.folder / path
        first, found, rest = file.read_text(encoding="utf8").rpartition(before)
        assert found, f"{path} does not say {before!r}"
        file.write_text(first + text + found + rest, encoding="utf8")
        self.touched.append(path)

    def run(self, *arguments: str) -> str:
        """The output of a Python process to which the copy is the house."""
        ran = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder), "FLAGS_check_plans": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout


@pytest.fixture
def house(tmp_path: pathlib.Path) -> House:
    return House(tmp_path)


TOY_OP = """\
# ---------------------------------------------------------------------- scale_rows
scale_rows = Op("scale_rows", "X Scale -> Out")


@scale_rows.shape
def _(X: Spec, Scale: Spec) -> Spec:
    if len(X.shape) != 2 or Scale.shape != X.shape[:1]:
        raise ShapeError(f"Scale needs one number a row of X{list(X.shape)}, but is {list(Scale.shape)}")
    return X


@scale_rows.kernel
def _(X: Array, Scale: Array) -> Array:
    return X * Scale[:, None]


@scale_rows.grad("X Scale")
def _(X: Array, Scale: Array, dOut: Array) -> tuple[Array, Array]:
    return dOut * Scale[:, None], (dOut * X).sum(1)


"""
TOY_ROW = """    Case(
        "scale_rows",
        {"X": f(2, 3), "Scale": f(2)},
        lambda X, Scale: X * Scale[:, None],
        grad=["X", "Scale"],
    ),
"""
# trained by two ranks, printed, parsed and drawn: nothing of that was told of the op
USE_OF_OP = """
import numpy as np
import fluidlite as fluid
from fluidlite.distributed import verify
from fluidlite.ir.text import parse
from fluidlite.show import FORMATS

x, y = fluid.data("x", [None, 3]), fluid.data("y", [None])
block = fluid.default_main_program().global_block()
out = block.create_var(name="scaled", dtype="float32")
hidden = fluid.layers.fc(x, 3)
block.append_op("scale_rows", {"X": hidden, "Scale": y}, {"Out": out})
fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(out))
main, startup = fluid.default_main_program(), fluid.default_startup_program()
assert "scale_rows_grad" in [op.type for op in block.ops]
assert str(parse(str(main))) == str(main)
assert all(b"scale_rows" in made.render(main) for made in FORMATS.values())
feed = {"x": np.ones((4, 3), "float32"), "y": np.arange(4, dtype="float32")}
print(verify(main, startup, [feed, feed], "grad_allreduce").equal)
"""


def test_an_op_is_one_block_and_one_row(house: House) -> None:
    first = "# ---------------------------------------------------------------------- kron"
    family, table = "fluidlite/ops/math/algebra.py", "tests/ops/op_tables/algebra.py"
    house.insert(family, first, TOY_OP)
    house.insert(table, "]\n", TOY_ROW)
    assert len(house.touched) == 2
    house.run(str(HERE / "op_index.py"))

    tested = ("tests/ops/test_ops.py", "-k", "scale_rows")
    assert "2 passed" in house.run("-m", "pytest", "-q", "-n", "0", *tested)
    assert house.run("-c", USE_OF_OP) == "True\n"


TOY_PASS = '''
    """Remarks on float64: arrays of a plan that take twice the memory."""

    from dataclasses import replace

    from fluidlite.executor.plan.plan import Plan, Remark
    from fluidlite.executor.plan.steps import flat


    def find_float64(plan: Plan) -> Plan:
        """Remark on each op that writes float64."""
        found = [step.op.type for step in flat(plan.steps) if step.op and step.writes[0].dtype == "float64"]
        remarks = [Remark("float64", op_type) for op_type in found]
        return replace(plan, remarks=(*plan.remarks, *remarks))
'''
USE_OF_PASS = """
import numpy as np
import fluidlite as fluid
exe = fluid.Executor(fluid.CPUPlace())
out = fluid.layers.tanh(fluid.data("x", [2], "float64"))
feed = {"x": np.zeros(2)}
for after in ("find_float64", None):
    print("float64: tanh" in exe.explain(feed=feed, fetch_list=[out], after=after, full=True))
print(exe.run(feed=feed, fetch_list=[out])[0].tolist())
"""


def test_a_pass_is_one_file_and_one_line(house: House) -> None:
    house.write("fluidlite/executor/passes/find_float64.py", TOY_PASS)
    line = "from fluidlite.executor.passes.find_float64 import find_float64\n"
    house.insert("fluidlite/executor/passes/__init__.py", ")\n", "    find_float64,\n")
    house.insert("fluidlite/executor/passes/__init__.py", "from fluidlite.executor.plan.plan", line)
    assert len(set(house.touched)) == 2

    assert house.run("-c", USE_OF_PASS).splitlines() == ["True", "True", "[0.0, 0.0]"]


TOY_MODE = '''
    """Mode "buckets": gradients are summed over the ranks in buckets of 1 MB."""

    from fluidlite.transpiler.modes.rings import RingMode
    from fluidlite.transpiler.parts.roles import Programs
    from fluidlite.transpiler.rings.gradients import reduce_gradients
    from fluidlite.transpiler.rings.startup import parameters_of, startup_of_rank, trained_parameters


    class Buckets(RingMode):
        """Gradients are summed over the ranks in buckets of 1 MB."""

        name = "buckets"
        about = "as grad_allreduce, in buckets of 1 MB"

        def rewrite(self, startup, main, rank, options):
            parameters = parameters_of(startup, main, trained_parameters(main))
            return Programs(
                reduce_gradients(main, rank.count, options.nrings, 1 << 20),
                startup_of_rank(startup, rank, options.id_names, parameters),
            )
'''


def test_a_mode_is_one_file_and_one_line(house: House) -> None:
    """The command lists it, makes its programs, checks them and runs them beside one process."""
    house.write("fluidlite/transpiler/modes/buckets.py", TOY_MODE)
    house.insert("fluidlite/transpiler/modes/__init__.py", ")\nLOCAL = ", "    Buckets(),\n")
    line = "from fluidlite.transpiler.modes.buckets import Buckets\n"
    house.insert("fluidlite/transpiler/modes/__init__.py", "from fluidlite.transpiler.modes.geo_sgd", line)
    assert len(set(house.touched)) == 2

    command = ("-m", "fluidlite.cli.transpile", str(ROOT / "examples" / "fit_a_line.py"), "--mode", "buckets")
    assert "trainer1" in house.run(*command, "--role", "trainer1", "--diff")
    assert house.run(*command, "--check").startswith("ok: 2 roles")
    proof = house.run(*command, "--verify", "--steps", "2")
    assert proof.startswith("buckets, 2 trainers, 2 steps: equal to one process")
    assert proof.endswith("\nok\n")
