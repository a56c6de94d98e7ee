"""Every role's program, in every mode and with every option, against what PaddlePaddle 1.8.5's transpilers
made.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import transpiled_known as known
import transpiled_roles
from transpiled_cases import CASES
from transpiled_compare import differences, read

import fluidlite as fluid
from fluidlite.distributed import verify
from fluidlite.distributed.feeds import random_feeds
from fluidlite.errors import TranspilerError
from fluidlite.ir.framework_pb import ProgramDesc
from fluidlite.transpiler import ps_dispatcher

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


def role_differences(name: str, source: str) -> list[str]:
    """Differences of all roles' programs from the recorded ones, or the error that there is instead."""
    files = recording(name)
    try:
        programs = transpile(name, SOURCES[source])
    except TranspilerError as error:
        return [f"TranspilerError: {str(error).splitlines()[0]}"]  # the next ones name a file of this machine
    assert sorted(programs) == sorted(role for role in files if "." in role and not role.startswith("source"))
    return [line for role, program in programs.items() for line in compare(role, program, files[role])]


def source_differences(name: str) -> list[str]:
    """Differences of the programs that are transpiled, to begin with."""
    made = transpiled_roles.build(fluid, CASES[name])
    programs = dict(zip(("source.main", "source.startup"), made, strict=True))
    return [
        line for role, program in programs.items() for line in compare(role, program, recording(name)[role])
    ]


def assert_known(key: str, found: list[str]) -> None:
    """All that is found is recorded, and all that is recorded is found."""
    wanted = known.differences().get(key, [])
    new, gone = [line for line in found if line not in wanted], [line for line in wanted if line not in found]
    assert found == wanted, f"{key}\nnew: {report(new)}\nno longer so: {report(gone)}"


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


@pytest.mark.parametrize("name", with_new_sources())
def test_source(name: str) -> None:
    assert_known(f"{name}/source", source_differences(name))


@pytest.mark.parametrize("name", TRANSPILED[::4])
def test_files_survive(name: str) -> None:
    """Reading and writing each recorded program changes nothing that is compared."""
    for role, data in recording(name).items():
        if "." in role:
            lines = compare(role, fluid.Program.parse_from_string(data), data)
            assert not lines, report(lines)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", TRANSPILED)
def test_roles(name: str, source: str) -> None:
    assert_known(f"{name}/{source}", role_differences(name, source))


def test_every_difference_has_a_reason() -> None:
    """And every reason has a difference."""
    keys = [f"{name}/source" for name in with_new_sources()]
    keys += [f"{name}/{source}" for name in TRANSPILED for source in SOURCES]
    assert set(known.differences()) == {key for key in keys if known.reason_of(key)}


def different_jobs() -> list[str]:
    """The cases of which 1.8.5 makes something else, and we make a job."""
    names = dict.fromkeys(key.rpartition("/")[0] for key in known.differences())
    refused = {key.rpartition("/")[0] for key, lines in known.differences().items() if "Error: " in lines[0]}
    return [name for name in names if name not in refused]


def smaller(value: Any) -> Any:
    """A quarter of a fed array of floats; ids and sequences as they are."""
    is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return value * value.dtype.type(0.25) if is_float else value


@pytest.mark.parametrize("name", different_jobs())
def test_what_we_make_instead_is_right(name: str) -> None:
    """The whole job, its roles as threads, moves the parameters as its reference does."""
    case = CASES[name]
    main, startup = transpiled_roles.build(fluid, case)
    for op in main.global_block().ops:
        if op.type == "dpsgd":  # its noise is of another seed on each server
            op._set_attr("sigma", 0.0)
    fields = {key: value for key, value in case.config.items() if key != "collective_mode"}
    if "split_method" in fields:
        fields["split_method"] = getattr(ps_dispatcher, fields["split_method"])
    config = fluid.DistributeTranspilerConfig.make(**fields)
    mode = case.config.get("collective_mode", case.mode)
    # Some of the orders in which asynchronous trainers can come lead whole feeds to infinity in five steps.
    feeds = [{key: smaller(value) for key, value in feed.items()} for feed in random_feeds(main, 4, 5)]
    proof = verify(main, startup, feeds, mode, case.trainers, case.servers, config, sync_mode=case.sync)
    assert proof.equal, str(proof)


@pytest.mark.parametrize("name", FAILED)
def test_refusals(name: str) -> None:
    """A case that 1.8.5 refuses does here what the table says: no programs and an error, or programs."""
    assert known.knows(known.REFUSED, name), f"1.8.5 raises {recording(name)['error'].decode()}"
    message = known.lookup(known.REFUSED, name)
    if message is None:
        assert transpile(name, SOURCES["built"])
    else:
        with pytest.raises(TranspilerError, match=message):
            transpile(name, SOURCES["built"])


@pytest.mark.parametrize("name", [name for name in TRANSPILED if "overview" in recording(name)])
def test_overview(name: str) -> None:
    """Programs say of themselves who holds which part of what."""
    wanted = recording(name)["overview"].decode().splitlines()
    assert transpiled_roles.overview(transpile(name, SOURCES["built"])).splitlines() == sorted(wanted)


def test_rounding_is_measured_for_sequences() -> None:
    """A bias that ends near 0 is relatively far from its reference's by rounding alone."""
    case = CASES["place_by_pairs_distributed"]
    main, startup = transpiled_roles.build(fluid, case)
    feeds = random_feeds(main, 4, 5)
    assert any(isinstance(value, fluid.LoDTensor) for value in feeds[0].values())
    proof = verify(main, startup, feeds, "pserver", case.trainers, case.servers, tolerance=0.0)
    assert proof.rounding > 0
