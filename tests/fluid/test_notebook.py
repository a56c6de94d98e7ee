"""Notebooks: HTML of results, a bar made of text, and cells that run a second time."""

from __future__ import annotations

import ast
import html.parser
import json
import pathlib
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.base.cells import table_cell, text_cell
from fluidlite.transpiler import make_job
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


def test_the_example_runs_twice(capsys: pytest.CaptureFixture[str]) -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    for _ in range(2):
        shown = [run_cell(source, names) for source in sources]
        pages = [words(value._repr_html_()) for value in shown if value is not None]
        starts = [
            "Program:",
            "Profile:",
            "plan:",
            "Job: pserver, 2 trainers, 2 servers",
            "ok:",
            "ok: pserver",
        ]
        assert [start for start, page in zip(starts, pages, strict=True) if page.startswith(start)] == starts
        assert "fc_0.w_0" in names["loss"].block.vars  # names count from 0 again
    assert "step 100/100" in capsys.readouterr().out


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
