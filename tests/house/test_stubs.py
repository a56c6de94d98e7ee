"""Editors and type checkers know the public names."""

import json
import pathlib
import subprocess
import sys

import pytest
import stubs

import fluidlite as fluid

HERE = pathlib.Path(__file__).parent
ROOMS = {
    "executor": "executor",
    "transpiler": "transpiler",
}  # folders beside the package, which hold rooms of it


@pytest.fixture(scope="module")
def written():
    """The stubs as their script writes them: in this process other tests may have loaded more modules."""
    script = "import json, stubs; print(json.dumps({door: stubs.stub(door) for door in stubs.doors()}))"
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=HERE
    )
    return json.loads(said.stdout)


@pytest.mark.parametrize("door", sorted(stubs.doors()))
def test_stubs_are_those_of_the_modules(door, written):
    assert stubs.path_of(door).read_text(encoding="utf8") == written[door], "run: python tests/house/stubs.py"


@pytest.fixture(scope="module")
def complaints(tmp_path_factory):
    """The lines that mypy complains of in the scripts of tests/house/types, by file."""
    package = tmp_path_factory.mktemp("tree") / "fluidlite"
    package.mkdir()
    for entry in [*(stubs.ROOT / "fluidlite").iterdir(), *(stubs.ROOT / room for room in ROOMS)]:
        (package / entry.name).symlink_to(entry)
    config = package.parent / "mypy.ini"
    config.write_text("[mypy]\nstrict = True\n")
    command = [sys.executable, "-m", "mypy", "--config-file", config, "--follow-imports", "silent"]
    command += [
        "--cache-dir",
        package.parent / "cache",
        HERE / "types" / "right.py",
        HERE / "types" / "wrong.py",
    ]
    env = {"MYPYPATH": str(package.parent), "PATH": ""}
    said = subprocess.run(command, capture_output=True, text=True, env=env, cwd=package.parent)
    assert said.stderr == ""
    found = {"right.py": set(), "wrong.py": set()}
    for line in said.stdout.splitlines():
        file, _, rest = line.partition(".py:")
        if ": error: " in rest:
            found[pathlib.Path(file).name + ".py"].add(int(rest.split(":")[0]))
    return found


def test_a_type_checker_finds_the_mistakes_and_no_others(complaints):
    lines = (HERE / "types" / "wrong.py").read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert len(marked) >= 20
    assert complaints == {"right.py": set(), "wrong.py": marked}


def test_dir_and_star_bring_the_public_names():
    names: dict[str, object] = {}
    exec("from fluidlite import *", names)
    assert names["Executor"] is fluid.Executor and names["layers"] is fluid.layers
    assert not {"Any", "importlib", "input", "op"} & set(names)
    for door in (
        fluid,
        fluid.layers,
        fluid.layers.nn,
        fluid.optimizer,
        fluid.io,
        fluid.transpiler,
        fluid.executor,
    ):
        shown = {name for name in dir(door) if not name.startswith("_")}
        assert shown >= {name for name in door.__all__ if not name.startswith("_")}
        assert not {"Any", "TYPE_CHECKING", "annotations", "importlib", "imported_names"} & (
            shown - {"annotations"}
        )
    assert "annotations" not in dir(fluid.layers)
