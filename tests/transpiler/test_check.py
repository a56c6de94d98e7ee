"""The static check: correct jobs give no finding, and every way to break them is caught by its rule."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import mutations
import pytest
import server_mutations
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import Roles
from transpiled_cases import CASES
from transpiled_compare import read
from transpiled_sources import two_fc

import fluidlite as fluid
from fluidlite.ir.program import Program
from fluidlite.transpiler import collective
from fluidlite.transpiler.check.report import RULES, check
from fluidlite.transpiler.parts.roles import JobRole, Programs

FOLDER = pathlib.Path(__file__).parent / "transpiled"
RECORDED = sorted(path.stem for path in FOLDER.glob("*.zip") if path.stem in CASES)
# What Paddle made wrongly, and the rules that say so (docs/TRANSPILERS.md has the story of each)
FAULTS = {
    "sync_adadelta": {"unused", "not-updated"},
    "async_adadelta": {"unused", "not-updated"},
    "place_one_trainer": {"no-sender", "no-receiver"},
    "place_one_trainer_adam": {"no-sender", "no-receiver"},
    "step_never_async": {"no-sender", "no-receiver"},
    "grad_allreduce_two_optimizers": {"sync"},
    "single_process_multi_thread_two_optimizers": {"sync"},
    "odd_large_id": {"trainer-id"},
    "odd_same_servers": {"endpoints"},
    **{
        f"{step}_whole_clip_{kind}": {"undeclared", "uninitialised"}
        for step in ("sync", "async")
        for kind in ("value", "norm", "norm_l2", "global_norm")
    },
}
MOST_PLACES = 2  # of one mutation in one set of roles
PLACES = ("10.0.0.1:6170", "10.0.0.2:6170", "10.0.0.3:6170")


# ---------------------------------------------------------------------- sets of roles
@cache
def recorded(name: str) -> tuple[Roles, int]:
    """The roles that PaddlePaddle 1.8.5 made, and the number of trainers (not all of them are recorded)."""
    case, files = CASES[name], read(str(FOLDER / f"{name}.zip"))
    found: Roles = {}
    for key in sorted(files):
        role, _, kind = key.partition(".")
        if kind == "main" and role != "source":
            index = int(role[len("trainer") :])  # "pserver" is as long
            place = (
                case.servers[index]
                if role.startswith("pserver") or case.mode in ("class", "collective", "nccl2")
                else ""
            )
            programs = [Program.parse_from_string(files[f"{role}.{which}"]) for which in ("main", "startup")]
            found[JobRole(role[: len("trainer")], index, place)] = Programs(*programs)
    return found, len(case.servers) if case.mode in ("class", "collective", "nccl2") else case.trainers


@cache
def ranks(mode: str, count: int = 3) -> Roles:
    """The ranks of a collective job."""
    makers: dict[str, Callable[[], Any]] = {
        "grad_allreduce": collective.GradAllReduce,
        "buckets": lambda: collective.GradAllReduce(bucket_bytes=50000),
        "local_sgd": collective.LocalSGD,
    }
    found: Roles = {}
    for index in range(count):
        main, startup = fluid.Program(), fluid.Program()
        with fluid.unique_name.guard(), fluid.program_guard(main, startup):
            fluid.optimizer.Adam(0.1).minimize(two_fc(fluid))
        makers[mode]().transpile(startup, main, index, list(PLACES[:count]), PLACES[index], False)
        found[JobRole("trainer", index, PLACES[index])] = Programs(main, startup)
    return found


SYNCHRONOUS = ("sync_adam", "sync_decay_exponential", "place_three_trainers")
FAMILIES: dict[str, tuple[Callable[[], tuple[Roles, int]], dict[str, tuple[str, mutations.Mutation]]]] = {
    **{name: (lambda name=name: recorded(name), mutations.SERVERS) for name in SYNCHRONOUS},
    **{name: (lambda name=name: recorded(name), mutations.ASYNC) for name in ("place_second_trainer_async",)},
    "grad_allreduce": (lambda: (ranks("grad_allreduce"), 3), mutations.RANKS),
    "buckets": (lambda: (ranks("buckets"), 3), mutations.RANKS),
    "local_sgd": (lambda: (ranks("local_sgd"), 3), mutations.SNAPSHOTS),
}


# ---------------------------------------------------------------------- correct jobs
@pytest.mark.parametrize("name", RECORDED)
def test_paddles_jobs_are_correct(name: str) -> None:
    roles, count = recorded(name)
    if not roles:  # Paddle refused the case
        assert "error" in read(str(FOLDER / f"{name}.zip"))
        return
    report = check(roles, count)
    if name in FAULTS:
        assert FAULTS[name] <= report.rules()
    else:
        assert report.ok, str(report)
        assert str(report).startswith("ok: ")


@pytest.mark.parametrize("mode", ["grad_allreduce", "buckets", "local_sgd"])
def test_collective_jobs_are_correct(mode: str) -> None:
    report = check(ranks(mode))
    assert report.ok, str(report)


# ---------------------------------------------------------------------- broken jobs
def edits(family: str, name: str) -> int:
    (make, known), roles = FAMILIES[family], None
    roles, _ = make()
    return len(list(known[name][1](mutations.clone(roles))))


def broken(family: str, name: str, place: int) -> tuple[str, frozenset[str]]:
    """The rule that should catch the mutation, and the rules that find something."""
    make, known = FAMILIES[family]
    rule, mutation = known[name]
    roles, count = make()
    roles = mutations.clone(roles)
    list(mutation(roles))[place]()
    return rule, check(roles, count).rules()


@pytest.mark.parametrize(
    "family,name", [(family, name) for family, (_, known) in FAMILIES.items() for name in known]
)
def test_mutation_is_caught(family: str, name: str) -> None:
    places = edits(family, name)
    for place in range(0, places, max(1, places // MOST_PLACES)):
        rule, found = broken(family, name, place)
        assert rule in found, f"{name} at place {place} of {places}: {sorted(found)}"


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_mutation_everywhere(family: str) -> None:
    for name in FAMILIES[family][1]:
        for place in range(edits(family, name)):
            rule, found = broken(family, name, place)
            assert rule in found, f"{name} at place {place}: {sorted(found)}"


def test_every_mutation_is_tried() -> None:
    """A mutation that finds no place in any family tests nothing."""
    tried = {name for family, (_, known) in FAMILIES.items() for name in known if edits(family, name)}
    assert tried == {
        name
        for family in (mutations.SERVERS, mutations.ASYNC, mutations.RANKS, mutations.SNAPSHOTS)
        for name in family
    }
    assert len(tried) >= 70


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_mutation_anywhere(data: st.DataObject) -> None:
    family = data.draw(st.sampled_from(sorted(FAMILIES)))
    name = data.draw(st.sampled_from(sorted(FAMILIES[family][1])))
    places = edits(family, name)
    if places:
        rule, found = broken(family, name, data.draw(st.integers(0, places - 1)))
        assert rule in found


# ---------------------------------------------------------------------- what is reported
def test_every_rule_catches_something() -> None:
    families = [
        value for name, value in vars(mutations).items() if name.isupper() and isinstance(value, dict)
    ]
    broken = {rule for family in families for rule, _ in family.values()}
    # between single ranks: `test_point_to_point`
    assert broken | {"point-to-point"} == set(RULES)


def test_the_docs_list_the_rules() -> None:
    text = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "CHECK.md").read_text(encoding="utf8")
    assert [
        line.split(" | ", 1)
        for line in text.splitlines()
        if line.startswith("| ") and " | requirement" not in line
    ] == [[f"| {rule}", f"{wanted} |"] for rule, wanted in RULES.items()]


def test_a_finding_names_role_op_values_and_the_nearest_name() -> None:
    roles, count = recorded("place_three_trainers")
    roles = mutations.clone(roles)
    op = next(op for _, _, op in mutations.ops(roles, "main", "recv"))
    op.attrs["varnames"] = ["fc_0.b_9"]
    report = check(roles, count)
    finding = next(finding for finding in report.findings if finding.rule == "not-held")
    assert finding.op is op and finding.role.name == "trainer0"
    assert "'fc_0.b_9'; did you mean 'fc_0.b_0'?" in finding.message
    assert "trainer0 main op" in str(finding) and "built at" in str(finding)
    assert str(report).splitlines()[-1].startswith(f"{len(report.findings)} finding")


def test_a_deadlock_is_a_chain() -> None:
    roles, count = recorded("place_three_trainers")
    roles = mutations.clone(roles)
    next(server_mutations.recv_before_barrier(roles))()
    finding = next(finding for finding in check(roles, count).findings if finding.rule == "deadlock")
    assert (
        "'recv'" in finding.message and "'send_barrier'" in finding.message and "'s update" in finding.message
    )


def damage(roles: Roles, random: Random) -> None:
    """Take away, empty, move or turn round something of one op or variable."""
    programs = roles[random.choice(list(roles))]
    block = random.choice((programs.main, programs.startup)).global_block()
    number = random.randrange(len(block.ops))
    op = block.ops[number]
    lists = [name for name, value in op.attrs.items() if isinstance(value, list) and value]
    slots = random.choice((op.inputs, op.outputs))
    slot = random.choice([*slots, ""])
    name = random.choice(list(block.vars))
    random.choice(
        (
            lambda: op.attrs.pop(random.choice(list(op.attrs))),
            lambda: slots.pop(slot, None),
            lambda: slots.update({slot: []} if slot else {}),
            lambda: block.ops.pop(number),
            lambda: block.ops.insert(random.randrange(len(block.ops)), block.ops.pop(number)),
            lambda: block.vars.pop(name),
            lambda: setattr(block.vars[name], "_shape", ()),
            lambda: setattr(block.vars[name], "_dtype", None),
            lambda: op.attrs.update({key: op.attrs[key][1:] for key in lists}),
            lambda: op.attrs.update({key: op.attrs[key][::-1] for key in lists}),
        )
    )()


@pytest.mark.parametrize("seed", range(8))
def test_no_damage_makes_the_check_itself_fail(seed: int) -> None:
    random = Random(seed)
    for family in FAMILIES:
        for _ in range(5):
            roles, count = FAMILIES[family][0]()
            roles = mutations.clone(roles)
            for _ in range(random.randrange(1, 4)):
                damage(roles, random)
            assert str(check(roles, count))


def test_the_check_changes_nothing() -> None:
    roles, count = recorded("sync_adam")
    before = [
        (programs.main.version, programs.startup.version, str(programs.main)) for programs in roles.values()
    ]
    check(roles, count)
    assert before == [
        (programs.main.version, programs.startup.version, str(programs.main)) for programs in roles.values()
    ]
