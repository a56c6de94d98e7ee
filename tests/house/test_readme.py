"""The README's Python runs, and trains."""

from __future__ import annotations

import contextlib
import io
import pathlib
import re

import fluidlite as fluid

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"


def test_the_code_in_the_readme_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf8"), re.S)
    assert len(blocks) >= 2
    output = io.StringIO()
    with (
        contextlib.redirect_stdout(output),
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.scope_guard(fluid.Scope()),
    ):
        with fluid.unique_name.guard():
            namespace: dict[str, object] = {}
            for block in blocks:
                exec(compile(block, str(README), "exec"), namespace)
    losses = [float(text) for text in re.findall(r"loss (\d+\.\d+)", output.getvalue())]
    assert len(losses) == 4 and losses[-1] < losses[0] / 10
    assert "def step(" in output.getvalue()


def test_folders_of_the_map_exist() -> None:
    root = README.parent
    for name in (
        "fluidlite/ir",
        "fluidlite/ops",
        "fluidlite/layers",
        "executor",
        "transpiler",
        "tests",
        "benchmarks",
        "examples",
        "docs",
    ):
        assert (root / name).is_dir(), name
