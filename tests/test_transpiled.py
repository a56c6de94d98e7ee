"""Every role's program, in every mode and with every option, against what PaddlePaddle 1.8.5's transpilers made."""
from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import transpiled_roles
from transpiled_compare import differences, read
from transpiled_sources import CASES

import fluidlite as fluid
from fluidlite.ir.framework_pb import ProgramDesc

FOLDER = pathlib.Path(__file__).parent / "transpiled"
MOST_LINES = 40
RECORDED = sorted(path.stem for path in FOLDER.glob("*.zip"))
SOURCES = {
    "built": lambda case, files: transpiled_roles.build(fluid, case),
    "parsed": lambda case, files: parsed(case, files),
}

needs_transpiler = pytest.mark.skipif(not hasattr(fluid, "DistributeTranspiler"), reason="no transpiler yet")


def parsed(case: Any, files: dict[str, bytes]) -> tuple[Any, Any]:
    """The source programs as Paddle wrote them; its files do not hold the seed."""
    programs = [fluid.Program.parse_from_string(files["source." + kind]) for kind in ("main", "startup")]
    for program in programs:
        program.random_seed = case.seed
    return programs[0], programs[1]


def report(lines: list[str]) -> str:
    return f"{len(lines)} differences\n" + "\n".join(lines[:MOST_LINES])


def compare(role: str, program: Any, recorded: bytes) -> list[str]:
    mine = ProgramDesc.FromString(program.desc.serialize_to_string())
    return list(differences(role, mine, ProgramDesc.FromString(recorded)))


def role_differences(name: str, source: Callable[[Any, dict[str, bytes]], Any]) -> list[str]:
    case, files = CASES[name], read(str(FOLDER / f"{name}.zip"))
    programs = transpiled_roles.roles(fluid, case, lambda: source(case, files))
    assert sorted(programs) == sorted(role for role in files if "." in role and not role.startswith("source"))
    return [line for role, program in programs.items() for line in compare(role, program, files[role])]


@pytest.mark.parametrize("name", RECORDED)
def test_source(name: str) -> None:
    """What is transpiled is the same to begin with."""
    files = read(str(FOLDER / f"{name}.zip"))
    programs = dict(zip(("source.main", "source.startup"), transpiled_roles.build(fluid, CASES[name]), strict=True))
    lines = [line for role, program in programs.items() for line in compare(role, program, files[role])]
    assert not lines, report(lines)


@pytest.mark.parametrize("name", RECORDED)
def test_files_survive(name: str) -> None:
    """Reading and writing each recorded program changes nothing that is compared."""
    for role, data in read(str(FOLDER / f"{name}.zip")).items():
        if "." in role:
            lines = compare(role, fluid.Program.parse_from_string(data), data)
            assert not lines, report(lines)


@needs_transpiler
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", RECORDED)
def test_roles(name: str, source: str) -> None:
    lines = role_differences(name, SOURCES[source])
    assert not lines, report(lines)
