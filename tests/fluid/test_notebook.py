"""Notebooks: HTML of results, a bar made of text, and cells that run a second time."""

from __future__ import annotations

import ast
import html.parser
import json
import pathlib
import sys
import types
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.base.cells import table_cell, text_cell
from fluidlite.ir.where import Where
from fluidlite.paddle.hapi.progressbar import ProgressBar
from fluidlite.show.svg import Picture
from fluidlite.transpiler import estimate, make_job
from fluidlite.transpiler.check.report import check

NOTEBOOK = pathlib.Path(__file__).resolve().parents[2] / "examples" / "notebook.ipynb"


class Words(html.parser.HTMLParser):
    """Collects text, and holds every tag to its end."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert tag != "script"
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def words(page: str) -> str:
    return " ".join(Words(page).words)


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does; the value of its last line, where that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


def displayed(value: Any) -> str:
    """The HTML that a notebook shows for a value."""
    return "<p>a picture</p>" if isinstance(value, Picture) else str(value._repr_html_())


def test_the_example_runs_twice(capsys: pytest.CaptureFixture[str]) -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    for _ in range(2):
        shown = [run_cell(source, names) for source in sources]
        pages = [words(displayed(value)) for value in shown if value is not None]
        starts = [
            "Program:",
            "a picture",
            "Profile:",
            "plan:",
            "Memory:",
            "Job: pserver, 2 trainers, 2 servers",
            "a picture",
            "ok:",
            "Cost:",
            "ok: pserver",
        ]
        assert [start for start, page in zip(starts, pages, strict=True) if page.startswith(start)] == starts
        assert "fc_0.w_0" in names["loss"].block.vars  # names count from 0 again
    assert "step 100/100" in capsys.readouterr().out


def test_the_example_is_stored_with_its_outputs() -> None:
    """`jupyter nbconvert --to notebook --execute --inplace examples/notebook.ipynb` makes them."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert all(cell["outputs"] for cell in code[1:])
    shown = [output.get("data", {}) for cell in code for output in cell["outputs"]]
    pages = json.dumps([data.get("text/html") or data.get("image/svg+xml") for data in shown])
    assert "In[2]:" in pages and "ipykernel" not in pages and len(pages) < 250_000


def test_findings_are_rows() -> None:
    loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 4]), 2))
    fluid.optimizer.SGD(0.1).minimize(loss)
    job = make_job(fluid.default_main_program(), fluid.default_startup_program(), trainers=12)
    assert "... 5 more" in words(job._repr_html_())
    role = job.roles[0]
    programs = {role: job.programs(role) for role in job.roles}
    block = programs[role].main.global_block()
    block.remove_op(next(op for op in block.ops if op.type == "fetch_barrier"))
    report = check(programs, made_by=job)
    page = words(report._repr_html_())
    assert not report.ok and all(rule in page for rule in report.rules())


def test_resetting_keeps_values_unless_asked() -> None:
    x = fluid.data("x", [None, 4])
    y = fluid.layers.fc(x, 2)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    fluid.reset_default_programs()
    assert not fluid.default_main_program().global_block().ops
    assert not fluid.default_startup_program().global_block().ops
    assert fluid.layers.fc(fluid.data("x", [None, 4]), 2).name == y.name
    assert exe.run(feed={"x": np.ones((1, 4), "float32")}, fetch_list=[y.name])[0].shape == (1, 2)
    fluid.reset_default_programs(scope=True)
    assert fluid.global_scope().find_var("fc_0.w_0") is None


def test_text_is_escaped() -> None:
    assert words(table_cell("<a>", ["<b>"], [["<c>", 1234]], good=False)) == "<a> <b> <c> 1,234"
    assert words(text_cell("<a>\n<b>")) == "<a> <b>"


def test_a_profile_is_filled_at_the_end() -> None:
    out = fluid.layers.relu(fluid.data("x", [2]))
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.profiler.profiler("CPU") as profile:
        exe.run(feed={"x": np.ones(2, "float32")}, fetch_list=[out])
        assert not profile.events
    assert "relu" in words(profile._repr_html_()) and "relu" in str(profile)


# ---------------------------------------------------------------------- memory and cost
def trained() -> Any:
    x = fluid.data("x", [None, 4])
    loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.fc(x, 8, act="tanh"), 1))
    fluid.optimizer.SGD(0.1).minimize(loss)
    return loss


def test_memory_is_a_table() -> None:
    loss = trained()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    used = exe.memory(feed={"x": np.ones((3, 4), "float32")}, fetch_list=[loss])
    page = words(used._repr_html_())
    assert page.startswith(f"Memory: {used.peak_bytes} B at op {used.peak_op}")
    assert "float32[4, 8]" in page and "fc_0.w_0" in page and "test_notebook.py:" in page


def test_costs_are_tables() -> None:
    trained()
    main, startup = fluid.default_main_program(), fluid.default_startup_program()
    served = words(estimate(make_job(main, startup, trainers=3, endpoints=2))._repr_html_())
    assert served.startswith("Cost: a step takes about ") and "trainer0..2" in served
    assert "pserver1" in served and "grad_allreduce" in served and "128" in served
    ring = words(estimate(make_job(main, startup, "grad_allreduce", trainers=3), flops=1e9)._repr_html_())
    assert "of it computing" in ring and "trainer1" in ring


# ---------------------------------------------------------------------- inside of IPython
class Shell:
    """IPython's shell of a kernel, as far as it is asked: the second cell is in a file of its own."""

    compile = types.SimpleNamespace(format_code_name={"/tmp/1/2.py": ("Cell", "In[2]")}.get)

    def has_trait(self, name: str) -> bool:
        return name == "kernel"


class Display:
    """A display that keeps all that it was given, with the replacements."""

    def __init__(self) -> None:
        self.shown: list[list[str]] = []

    def display(self, data: dict[str, str], raw: bool, display_id: bool) -> Display:
        self.shown.append([data["text/plain"]])
        return self

    def update(self, data: dict[str, str], raw: bool) -> None:
        self.shown[-1].append(data["text/plain"])


@pytest.fixture
def display(monkeypatch: pytest.MonkeyPatch) -> Display:
    """A process in which a notebook's kernel runs."""
    made = Display()
    ipython = types.SimpleNamespace(get_ipython=Shell, display=made)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    return made


def test_lines_of_cells_are_called_as_notebooks_call_them(display: Display) -> None:
    names: dict[str, Any] = {"fluid": fluid}
    exec(compile("\n\n\nout = fluid.layers.relu(fluid.data('x', [2]))", "/tmp/1/2.py", "exec"), names)
    assert str(names["out"].op.where) == "In[2]:4"
    assert str(Where("/tmp/1/3.py", 4)) == "/tmp/1/3.py:4"
    job = fluid.default_main_program()._repr_html_()
    assert "In[2]:4" in job and "/tmp/1" not in job


def test_a_bar_is_one_line(display: Display, capsys: pytest.CaptureFixture[str]) -> None:
    bar = ProgressBar(2)
    for epoch in range(2):
        bar.start()
        for step in (1, 2):
            bar.update(step, [("loss", 0.5)])
        assert len(display.shown) == epoch + 1 and len(display.shown[-1]) == 2
    assert display.shown[-1][-1].startswith("step 2/2 [====") and capsys.readouterr().out == ""


def test_a_bar_in_a_terminal_is_drawn_over_itself(capsys: pytest.CaptureFixture[str]) -> None:
    ProgressBar(2).update(1, [])
    assert capsys.readouterr().out.startswith("\rstep 1/2 [")
