"""Every role's program, in every mode and with every option, against what PaddlePaddle 1.8.5's transpilers
made.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import transpiled_known as known
import transpiled_roles
from transpiled_cases import CASES
from transpiled_compare import differences, read

import fluidlite as fluid
from fluidlite.errors import TranspilerError
from fluidlite.ir.framework_pb import ProgramDesc

FOLDER = pathlib.Path(__file__).parent / "transpiled"
MOST_LINES = 40
SOURCES = {
    "built": lambda case, files: transpiled_roles.build(fluid, case),
    "parsed": lambda case, files: parsed(case, files),
}


@functools.cache
def recording(name: str) -> dict[str, bytes]:
    return read(str(FOLDER / f"{name}.zip"))


RECORDED = sorted(path.stem for path in FOLDER.glob("*.zip"))
TRANSPILED = [name for name in RECORDED if "error" not in recording(name)]
FAILED = [name for name in RECORDED if "error" in recording(name)]


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


def transpile(name: str, source: Callable[[Any, dict[str, bytes]], Any]) -> dict[str, Any]:
    case = CASES[name]
    return transpiled_roles.roles(fluid, case, lambda: source(case, recording(name)))


def role_differences(name: str, source: Callable[[Any, dict[str, bytes]], Any]) -> list[str]:
    files, programs = recording(name), transpile(name, source)
    assert sorted(programs) == sorted(role for role in files if "." in role and not role.startswith("source"))
    return [line for role, program in programs.items() for line in compare(role, program, files[role])]


def expected(table: dict[str, str], key: str, *values: str) -> Any:
    """A parameter of a test; one that must fail where the table has a reason."""
    reason = known.lookup(table, key)
    marks = (
        [pytest.mark.xfail(strict=True, raises=(AssertionError, TranspilerError), reason=reason)]
        if reason
        else []
    )
    return pytest.param(*values, marks=marks, id=key)


def test_every_case_is_recorded() -> None:
    """And says the same in processes with different hash seeds, but for the order in which tables are
    declared empty.
    """
    assert sorted(CASES) == RECORDED
    unstable = {
        name: recording(name)["unstable"].decode().splitlines()
        for name in RECORDED
        if "unstable" in recording(name)
    }
    assert not [line for lines in unstable.values() for line in lines if "(fake_init)" not in line]


def with_new_sources() -> list[str]:
    """One case for each program that is transpiled, in several ways or in one."""
    first: dict[int, str] = {}
    for name in RECORDED:
        if "source.main" in recording(name):
            first.setdefault(id(CASES[name].build), name)
    return list(first.values())


@pytest.mark.parametrize("name", [expected(known.SOURCES_DIFFER, name, name) for name in with_new_sources()])
def test_source(name: str) -> None:
    """What is transpiled is the same to begin with."""
    programs = dict(
        zip(("source.main", "source.startup"), transpiled_roles.build(fluid, CASES[name]), strict=True)
    )
    lines = [
        line for role, program in programs.items() for line in compare(role, program, recording(name)[role])
    ]
    assert not lines, report(lines)


@pytest.mark.parametrize("name", TRANSPILED[::4])
def test_files_survive(name: str) -> None:
    """Reading and writing each recorded program changes nothing that is compared."""
    for role, data in recording(name).items():
        if "." in role:
            lines = compare(role, fluid.Program.parse_from_string(data), data)
            assert not lines, report(lines)


@pytest.mark.parametrize(
    "name, source",
    [
        expected(known.DIFFERENT, f"{name}/{source}", name, source)
        for name in TRANSPILED
        for source in SOURCES
    ],
)
def test_roles(name: str, source: str) -> None:
    lines = role_differences(name, SOURCES[source])
    assert not lines, report(lines)


@pytest.mark.parametrize("name", FAILED)
def test_refusals(name: str) -> None:
    """Where 1.8.5 raises, we do what the table says: nothing in between, and no error of another kind."""
    assert known.knows(known.REFUSED, name), f"1.8.5 raises {recording(name)['error'].decode()}"
    message = known.lookup(known.REFUSED, name)
    if message is None:
        assert transpile(name, SOURCES["built"])
    else:
        with pytest.raises(TranspilerError, match=message):
            transpile(name, SOURCES["built"])


@pytest.mark.parametrize("name", [name for name in TRANSPILED if "overview" in recording(name)])
def test_overview(name: str) -> None:
    """What programs say of themselves: who holds which part of what."""
    wanted = recording(name)["overview"].decode().splitlines()
    assert transpiled_roles.overview(transpile(name, SOURCES["built"])).splitlines() == sorted(wanted)
