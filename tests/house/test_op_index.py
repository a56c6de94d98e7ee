"""The index of ops is that of the families, and nothing reads sources to find an op."""

from __future__ import annotations

import os
import pathlib
import py_compile
import shutil
import subprocess
import sys
import zipfile

import pytest
from modules import HOMES, ROOT
from op_index import INDEX, RULE_INDEX

from fluidlite.base.families import FAMILIES, families

HERE = pathlib.Path(__file__).parent


@pytest.mark.parametrize("index, text", [(INDEX, "text"), (RULE_INDEX, "rules_text")])
def test_the_index_is_that_of_the_families(index: pathlib.Path, text: str) -> None:
    """As the script writes it in a process of its own: here, other tests may have imported families."""
    script = f"import op_index; print(op_index.{text}(), end='')"
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=HERE
    )
    assert index.read_text(encoding="utf8") == said.stdout, "run: python tests/house/op_index.py"


def test_one_family_declares_an_op() -> None:
    assert len(families()) == sum(len(types.split()) for types in FAMILIES.values()) > 600


TRAINED_AND_SAVED = """
import sys
import numpy as np
import fluidlite as fluid
from fluidlite.base import registry
from fluidlite.show import FORMATS

fluid.default_startup_program().random_seed = 1
x, y = fluid.data("x", [None, 4]), fluid.data("y", [None, 1])
out = fluid.layers.fc(fluid.layers.fc(x, 3, act="softmax"), 1)
loss = fluid.layers.mean(fluid.layers.square_error_cost(out, y))
fluid.optimizer.Adam(0.1).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
feed = {"x": np.ones((2, 4), "float32"), "y": np.ones((2, 1), "float32")}
losses = [exe.run(feed=feed, fetch_list=[loss])[0].item() for _ in range(9)]
fluid.io.save_inference_model(sys.argv[1], ["x"], [out], exe)
program, feeds, fetches = fluid.io.load_inference_model(sys.argv[1], exe)
exe.run(program, {"x": feed["x"]}, fetches)
assert all(made.render(program) for made in FORMATS.values())
print(fluid.__file__, losses[-1] < losses[0], len(registry.known_types()) > 900)
"""


@pytest.fixture(scope="module")
def without_sources(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The installed packages with a .pyc in place of each .py."""
    site = tmp_path_factory.mktemp("site")
    for package, home in HOMES.items():
        for path in (ROOT / home).rglob("*.*"):
            to = site / package.replace(".", "/") / path.relative_to(ROOT / home)
            if path.suffix == ".py":
                py_compile.compile(str(path), cfile=str(to.with_suffix(".pyc")), doraise=True)
            elif path.is_file() and path.suffix not in (".pyc", ".pyi"):
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, to)
    return site


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
def test_an_installation_without_sources_trains(
    packed: bool, without_sources: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    home = without_sources
    if packed:
        home = tmp_path / "site.zip"
        with zipfile.ZipFile(home, "w") as archive:
            for path in without_sources.rglob("*.*"):
                archive.write(path, path.relative_to(without_sources))
    ran = subprocess.run(
        [sys.executable, "-c", TRAINED_AND_SAVED, str(tmp_path / "model")],
        env={**os.environ, "PYTHONPATH": str(home)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stderr == ""
    assert ran.stdout == f"{home / 'fluidlite' / '__init__.pyc'} True True\n"
