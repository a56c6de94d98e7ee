"""Every mode, with every option, of every example and of every program of the recorded cases passes the
static check.
"""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import mutations
import numpy as np
import pytest
from transpiled_cases import CASES

import fluidlite as fluid
from fluidlite.errors import TranspilerError
from fluidlite.transpiler.check.report import check
from fluidlite.transpiler.config import DistributeTranspilerConfig
from fluidlite.transpiler.modes import Job, make_job

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
FOUR = {"endpoints": 2, "trainers": 4}


# ---------------------------------------------------------------------- programs
def example(name: str) -> Any:
    if str(EXAMPLES) not in sys.path:  # the examples share a module
        sys.path.append(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fit_a_line() -> None:
    x, y = fluid.data("x", [None, 10]), fluid.data("y", [None, 1])
    fluid.optimizer.SGD(0.01).minimize(
        fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    )


def ctr_dnn() -> None:
    fluid.optimizer.Adam(0.003, lazy_mode=True).minimize(example("ctr_dnn").build(2600, 8)[0])


def transformer_lm() -> None:
    rate = fluid.layers.learning_rate_scheduler.noam_decay(96, 100)
    fluid.optimizer.Adam(rate, beta2=0.98).minimize(example("transformer_lm").build(60, 48, 96, 2, 4)[0])


def word2vec(sparse: bool) -> None:
    fluid.optimizer.Adagrad(0.1).minimize(example("word2vec").build(1000, 32, 128, sparse))


def table() -> None:
    """A table that two servers share."""
    ids = fluid.data("ids", [None, 5], "int64")
    rows = fluid.embedding(ids, [3000, 16], is_sparse=True, param_attr=fluid.ParamAttr(name="table"))
    y = fluid.data("y", [None, 1])
    guess = fluid.layers.fc(fluid.layers.reduce_sum(rows, dim=1), 1)
    fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(fluid.layers.square_error_cost(guess, y)))


def alike() -> None:
    """Four weights and four biases of the same shapes."""
    x = fluid.data("x", [None, 16])
    for _ in range(4):
        x = fluid.layers.fc(x, 16)
    fluid.optimizer.Momentum(0.1, 0.9).minimize(fluid.layers.mean(x))


PROGRAMS: dict[str, Callable[[], Any]] = {
    "fit_a_line": fit_a_line,
    "ctr_dnn": ctr_dnn,
    "transformer_lm": transformer_lm,
    "word2vec": lambda: word2vec(True),
    "word2vec_dense": lambda: word2vec(False),
    "digits_mlp": lambda: example("recognize_digits").build("mlp"),
    "digits_conv": lambda: example("recognize_digits").build("conv"),
}
MODES: dict[str, tuple[str, dict[str, Any]]] = {
    "pserver": ("pserver", {}),
    "one_server": ("pserver", {"endpoints": 1}),
    "one_trainer": ("pserver", {"trainers": 1}),
    "idle_servers": ("pserver", {"endpoints": 40, "trainers": 3}),
    "whole": ("pserver", {"slice_var_up": False}),
    "small_slices": ("pserver", {"min_block_size": 1, "endpoints": 3}),
    "hash": ("pserver", {"split_method": "HashName"}),
    "async": ("pserver", {"sync_mode": False}),
    "half_async": ("pserver", {"sync_mode": False, "half_async": True}),
    "at_run_time": ("pserver", {"sync_mode": False, "runtime_split_send_recv": True}),
    "geo_sgd": ("geo_sgd", {"sync_mode": False, "geo_sgd_mode": True}),
    "nccl2": ("nccl2", {}),
    "nccl2_rings": ("nccl2", {"nccl_comm_num": 2}),
    "nccl2_hierarchical": (
        "nccl2",
        {**FOUR, "use_hierarchical_allreduce": True, "hierarchical_allreduce_inter_nranks": 2},
    ),
    "grad_allreduce": ("grad_allreduce", FOUR),
    "buckets": ("grad_allreduce", {"bucket_bytes": 1 << 20}),
    "local_sgd": ("local_sgd", FOUR),
    "single_process_multi_thread": ("single_process_multi_thread", {}),
    "multi_thread": ("multi_thread", {}),
}


def make(
    build: Callable[[], Any],
    mode: str,
    trainers: int = 2,
    endpoints: Any = 2,
    sync_mode: bool = True,
    **fields: Any,
) -> Job:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        build()
    if isinstance(fields.get("split_method"), str):
        from fluidlite.transpiler import ps_dispatcher

        fields["split_method"] = getattr(ps_dispatcher, fields["split_method"])
    config = DistributeTranspilerConfig.make(sync_mode=sync_mode, **fields)
    return make_job(main, startup, mode, trainers, endpoints, sync_mode, config)


# ---------------------------------------------------------------------- correct
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("mode", MODES)
def test_job_is_correct(mode: str, program: str) -> None:
    name, options = MODES[mode]
    report = check(make(PROGRAMS[program], name, **options))
    assert report.ok, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_recorded_source_is_correct(name: str) -> None:
    case = CASES[name]
    mode = {"geo": "geo_sgd", "nccl2": "nccl2"}.get(case.mode, case.config.get("collective_mode", "pserver"))
    fields = {key: value for key, value in case.config.items() if key not in ("sync_mode", "collective_mode")}
    sync = case.sync and case.mode != "geo" and case.config.get("sync_mode", True)
    trainers = case.trainers if mode in ("pserver", "geo_sgd") else len(case.servers)
    try:
        report = check(make(lambda: case.build(fluid), mode, trainers, case.endpoints, sync, **fields))
    except TranspilerError:
        return  # refused with a reason: other tests say which
    assert report.ok, str(report)


# ---------------------------------------------------------------------- broken
@pytest.mark.parametrize(
    "program,mode,family",
    [
        ("digits_mlp", "pserver", "SERVERS"),
        ("digits_mlp", "async", "ASYNC"),
        ("table", "pserver", "TABLES"),
        ("table", "async", "TABLES"),
        ("alike", "pserver", "PAIRS"),
        ("digits_mlp", "geo_sgd", "GEO"),
        ("digits_mlp", "nccl2", "NCCL2"),
        ("digits_mlp", "nccl2_hierarchical", "NCCL2"),
    ],
)
def test_mutations_of_our_jobs_are_caught(program: str, mode: str, family: str) -> None:
    name, options = MODES[mode]
    job = make({"table": table, "alike": alike}.get(program) or PROGRAMS[program], name, **options)
    roles = {role: job.programs(role) for role in job.roles}
    assert check(roles).ok
    tried = 0
    for rule, mutation in getattr(mutations, family).values():
        places = len(list(mutation(mutations.clone(roles))))
        for place in {0, places - 1} if places else ():
            broken = mutations.clone(roles)
            list(mutation(broken))[place]()
            found = check(broken).rules()
            assert rule in found, f"{mutation.__name__} at {place}: {sorted(found)}"
            tried += 1
    assert tried > len(getattr(mutations, family))


@pytest.mark.parametrize("mode", ["pserver", "async"])
@pytest.mark.parametrize("optimizer", ["Momentum", "Adam"])
def test_servers_unlike_the_original_are_caught(mode: str, optimizer: str) -> None:
    def build() -> None:
        hidden = fluid.layers.fc(fluid.data("x", [None, 40]), 600)
        normal = fluid.initializer.Normal(0.0, 0.1, seed=3)  # whole at its server: as many numbers as before
        hidden = fluid.layers.fc(hidden, 3, param_attr=fluid.ParamAttr(initializer=normal))
        decay = fluid.regularizer.L2Decay(0.1)
        options = {"momentum": 0.9, "regularization": decay} if optimizer == "Momentum" else {}
        getattr(fluid.optimizer, optimizer)(0.1, **options).minimize(fluid.layers.mean(hidden))

    name, options = MODES[mode]
    job = make(build, name, **options)
    roles = {role: job.programs(role) for role in job.roles}
    report = check(mutations.clone(roles), made_by=job)
    assert report.ok, str(report)
    tried = set()
    for rule, mutation in mutations.MADE.values():
        for place in range(len(list(mutation(mutations.clone(roles))))):
            broken = mutations.clone(roles)
            list(mutation(broken))[place]()
            assert check(broken, made_by=job).rules() == {rule}
            assert check(broken).ok  # nothing shows without the original
            tried.add(rule)
    assert tried == ({"as-written", "beginning"} if optimizer == "Momentum" else {"beginning"})


@pytest.mark.parametrize("mode", ["geo_sgd", "grad_allreduce", "local_sgd"])
def test_trainers_unlike_the_original_are_caught(mode: str) -> None:
    def build() -> None:
        hidden = fluid.layers.fc(fluid.data("x", [None, 40]), 8)
        fluid.optimizer.Momentum(0.1, 0.9).minimize(fluid.layers.mean(hidden))

    name, options = MODES[mode]
    job = make(build, name, **options)
    roles = {role: job.programs(role) for role in job.roles}
    for _, _, op in mutations.ops(roles, "main", "momentum"):
        report = check(roles, made_by=job)
        assert report.ok, str(report)
        before, op.attrs["mu"] = op.attrs["mu"], 0.5
        assert check(roles, made_by=job).rules() == {"as-written"}
        op.attrs["mu"] = before


def test_a_server_without_the_penalty_is_caught() -> None:
    def build() -> None:
        hidden = fluid.layers.fc(fluid.data("x", [None, 40]), 8)
        fluid.optimizer.SGD(0.1, regularization=fluid.regularizer.L2Decay(0.1)).minimize(
            fluid.layers.mean(hidden)
        )

    name, options = MODES["async"]
    job = make(build, name, **options)
    roles = {role: job.programs(role) for role in job.roles}
    block = next(block for block, _, op in mutations.ops(roles, "main", "sgd"))
    del block.ops[:-1]
    assert "as-written" in check(roles, made_by=job).rules()


def test_slices_of_listed_values_begin_as_the_whole() -> None:
    def build() -> None:
        values = fluid.initializer.NumpyArrayInitializer(
            np.arange(40000.0, dtype="float32").reshape(200, 200)
        )
        hidden = fluid.layers.fc(
            fluid.data("x", [None, 200]), 200, param_attr=fluid.ParamAttr(initializer=values)
        )
        fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(hidden))

    name, options = MODES["pserver"]
    job = make(build, name, **options)
    assert len(job.slices) > 2 and check(job).ok
    roles = {role: job.programs(role) for role in job.roles}
    for _, _, op in mutations.ops(roles, "startup", "assign_value", kind="pserver"):
        op.attrs["fp32_values"] = op.attrs["fp32_values"][::-1]
    assert check(roles, made_by=job).rules() == {"beginning"}


@pytest.mark.parametrize("mode", ["pserver", "grad_allreduce"])
def test_what_the_user_feeds_or_sets_is_no_fault(mode: str) -> None:
    def build() -> None:
        block = fluid.default_main_program().global_block()
        mask = block.create_var(
            name="mask", shape=[-1, 4], dtype="float32", stop_gradient=True
        )  # fed, and not declared as data
        table = block.create_var(
            name="prices", shape=[4], dtype="float32", persistable=True, stop_gradient=True
        )  # set in the scope
        hidden = fluid.layers.fc(fluid.data("x", [None, 4]), 4) * mask * table
        fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(hidden))

    report = check(make(build, mode))
    assert report.ok, str(report)


def test_large_jobs_are_sampled() -> None:
    """Of a hundred trainers three are read; what the servers wait for from the others is known from those."""
    report = check(make(fit_a_line, "pserver", trainers=100))
    assert report.ok, str(report)
    assert [role.name for role in report.looked_at] == [
        "trainer0",
        "trainer1",
        "trainer99",
        "pserver0",
        "pserver1",
    ]


def test_a_wrong_slice_of_the_jobs_table() -> None:
    from dataclasses import replace

    job = make(PROGRAMS["digits_mlp"], "pserver")
    slices = job.slices
    place = next(number for number, part in enumerate(slices) if part.count > 1 or part.shape[0] > 1)
    for wrong in (
        replace(slices[place], first_row=slices[place].first_row + 1),
        replace(slices[place], endpoint="127.0.0.1:1"),
        replace(slices[place], shape=(slices[place].shape[0] - 1, *slices[place].shape[1:])),
    ):
        job.__dict__["slices"] = (*slices[:place], wrong, *slices[place + 1 :])
        assert check(job).rules() & {"slices", "endpoints"}
